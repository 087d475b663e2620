"""The answer type of a question: whether it asks for a name or a number.

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
# What has none, but a day or a figure: "which day", "which code".
_TIMES: Final = "day weekday date month year time hour week weekend season morning afternoon evening night".split()
_FIGURES: Final = "code number pin size amount price page channel floor port version".split()
_ASKS_NAME: Final = re.compile(
    rf"""\b(?:who|whom|whose|where|names?|named|called|titled?)\b
       | \bwhich\b(?!\s+(?:{"|".join((*_TIMES, *_FIGURES))})s?\b)
       | \bwhat\s+(?:\w+\s+)?(?:(?:kind|type|sort)s?\s+of\s+(?:\w+\s+)?)?(?:{"|".join(_NAMED)})s?\b""",
    re.VERBOSE | re.IGNORECASE,
)
_ASKS_PLACE: Final = re.compile(r"\bwhere\b", re.IGNORECASE)
_ASKS_PERSON: Final = re.compile(r"\b(?:who|whom|whose)\b", re.IGNORECASE)
_ASKS_HOME: Final = re.compile(
    r"\bwhere\b.*\b(?:lives?|living|lived|resides?|home)\b"
    r"|\bwhat\b.*(?:\b(?:my|our|his|her|their|new|home|postal)|\w['’]s)\s+address\b",
    re.IGNORECASE,
)
_ASKS_NUMBER: Final = re.compile(
    rf"""\bhow\s+(?:many|much|long|old|often|far|big|tall|high|heavy)\b|\bwhich\s+(?:{"|".join(_FIGURES)})s?\b
       | \bwhat\b.*\b(?:prices?|rent|fees?|salary|wages?|rates?|costs?|charges?)\b
       | \bwhat\s+(?:do|does|did|will)\s+(?:\w+\s+){{1,3}}(?:pay|earn|ask|take)\s+(?:for|an?|per|each)\b""",
    re.IGNORECASE | re.VERBOSE,
)


def answer_type(text: str, words: Sequence[str], *, language: Language, known: Set[str]) -> AnswerType:
    """The answer type; `words` are those of the question, folded, and `known` those of names already known."""
    if language != "english":
        return ANY_TYPE
    home = _ASKS_HOME.search(text) is not None
    name, number = home or _ASKS_NAME.search(text) is not None, _ASKS_NUMBER.search(text) is not None
    if not name:
        return AnswerType(number=number) if number else ANY_TYPE
    place = _ASKS_PLACE.search(text) is not None and _ASKS_PERSON.search(text) is None
    known = frozenset(map(without_possessive, words)) | known
    return AnswerType(name=True, number=number, place=place, home=home, known=known)
