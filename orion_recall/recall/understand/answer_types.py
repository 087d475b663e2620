"""What kind of answer a question asks for, and whether a text gives one: a name that is new, or a number.

The expected type of the answer (Li and Roth 2002), as far as small words tell it; times are read in `when`. In
English alone: where every noun has a capital letter, that says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Final

from orion_recall.models.language import Language
from orion_recall.text.normal import without_possessive
from orion_recall.values import ANY_TYPE, AnswerType

# What has a name, where "what" is followed by it: "what book", "what kind of dog breed".
_NAMED: Final = """
album artist author band beach book brand breed cafe café character city club college company conference country
event festival film game hospital hotel instrument island lake language magazine mountain movie museum musician
organisation organization park person place play podcast restaurant river school series shop show singer song state
store street team town university village website writer
""".split()
_ASKS_NAME: Final = re.compile(
    rf"""\b(?:who|whom|whose|where|which|names?|named|called|titled?)\b
       | \bwhat\s+(?:\w+\s+)?(?:(?:kind|type|sort)s?\s+of\s+(?:\w+\s+)?)?(?:{"|".join(_NAMED)})s?\b""",
    re.VERBOSE | re.IGNORECASE,
)
_ASKS_NUMBER: Final = re.compile(r"\bhow\s+(?:many|much|long|old|often|far|big|tall|high|heavy)\b", re.IGNORECASE)

_NUMBERS: Final = frozenset(
    """0 1 2 3 4 5 6 7 8 9 one two three four five six seven eight nine ten eleven twelve dozen dozens hundred
    hundreds thousand thousands once twice couple few several many first second third""".split()
)
# Looked up word by word: an expression of all of them takes four times as long.
_PIECES: Final = re.compile(r"[a-z]+|\d")
_CAPITAL: Final = re.compile(r"[A-Z][\w'’-]+")
_OPENS: Final = '"“‘(['
# Before these a sentence goes on, and so does one after a letter or digit.
_GOES_ON: Final = ",;:'’\")"
# Capital wherever they stand, and the names of nobody.
_NO_NAMES: Final = frozenset(
    """i'm i've i'll i'd i’m i’ve i’ll i’d ok okay yeah yes no oh wow hey hi hello thanks well so and but or it the
    you we that this my he she they there what how""".split()
)


def answer_type(text: str, words: Sequence[str], *, language: Language, known: Set[str]) -> AnswerType:
    """What the question asks for; `words` are its own, folded, and `known` those of names that are no news."""
    if language != "english":
        return ANY_TYPE
    name, number = _ASKS_NAME.search(text) is not None, _ASKS_NUMBER.search(text) is not None
    if not name:
        return AnswerType(number=number) if number else ANY_TYPE
    return AnswerType(name=True, number=number, known=frozenset(map(without_possessive, words)) | known)


def gives_name(text: str, known: Set[str]) -> bool:
    """Whether the text names somebody or something, inside a sentence, that is not among the known words."""
    for match in _CAPITAL.finditer(text):
        start = match.start()
        if start == 0:
            continue
        before = text[start - 1]
        inside = before in _OPENS
        if not inside and before == " " and start > 1:
            inside = text[start - 2].isalnum() or text[start - 2] in _GOES_ON
        if inside:
            word = match[0].casefold()
            if word not in _NO_NAMES and without_possessive(word) not in known:
                return True
    return False


def gives_number(text: str) -> bool:
    """Whether the text says how many, in figures or words; to ask it is not to say it."""
    folded = text.casefold().replace("how many", "how")
    return not _NUMBERS.isdisjoint(_PIECES.findall(folded))
