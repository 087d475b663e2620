"""Personal facts that few words tell: a birthday, an age, a phone number, an e-mail address.

Whoever tells one uses one of these words, or such a value. So where nothing that names a person has any, another
person's birthday is no answer, however near it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from orion_recall.models.language import Language, language_of
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.normal import words

_BIRTHDAY: Final = re.compile(r"\b(?:birthday|birthdate|b-?day|born|birth|turn(?:s|ed|ing)?)\b", re.IGNORECASE)
_NUMBER: Final = (
    r"(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen"
    r"|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:[ -]\w+)?)"
)
# Not any number: "four kittens" and "56 cm" are no age, "Milo (4)", "she's nine" and "two years" may be.
_AGE: Final = re.compile(
    _BIRTHDAY.pattern
    + rf"|\b(?:age[ds]?|old|years?|months?)\b|[,(]\s*{_NUMBER}\b\s*[,).]"
    + rf"|\b(?:is|am|are|was|were|be|than|at|\w+['’](?:s|m|re))\s+(?:\w+\s+)?{_NUMBER}\b(?!\s+\w+(?:s|m|kg)\b)",
    re.IGNORECASE,
)
_DIGITS: Final = re.compile(r"\d(?:[ ()/.-]*\d){2,}")
_MAIL: Final = re.compile("@")
_HOW_OLD: Final = re.compile(r"\bhow old\b|\byears? old\b", re.IGNORECASE)
_TOLD: Final[Mapping[str, re.Pattern[str]]] = {
    **dict.fromkeys(("birthday", "birthdate", "born", "birth"), _BIRTHDAY),
    **dict.fromkeys(("old", "age"), _AGE),
    **dict.fromkeys(("phone", "telephone", "mobile", "number"), _DIGITS),
    **dict.fromkeys(("email", "mail", "e-mail"), _MAIL),
}


def lacks_fact(
    asked: str,
    attributes: Sequence[str],
    items: Sequence[ScoredCandidate],
    named: Collection[int],
    language: Language,
    *,
    most: int,
) -> bool:
    """Whether such a fact is all that is asked of a person, and no memory of that person tells one.

    `asked` is the question, `attributes` are what it asks for, folded; `named` the places of the memories that name
    the person or speak for them, of whose texts `most` characters are read. The turn beside one of these may tell
    it with a pronoun. A memory in another language than the question may tell anything.
    """
    if not attributes or not _TOLD.keys() >= set(attributes):
        return False
    if "old" in attributes and not _HOW_OLD.search(asked):  # of an old car
        return False
    around = {key for place in named for key in items[place].memory.beside}
    told = [
        item.memory.text[:most]
        for place, item in enumerate(items)
        if place in named or item.candidate.key in around
    ]
    return not any(
        any(_TOLD[word].search(text) for word in attributes) or language_of(words(text)) != language
        for text in told
    )
