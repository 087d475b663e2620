"""Introductions: whether a text says who somebody is, rather than only name them. English only.

"Hana Sato, our landlady"   "my brother Wim"   "Hana is the new vet"   "I'm Hana, from the bank"   "we call her Nan"
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

WHOLE, PARTLY = 1.0, 0.5
"""What a text that introduces somebody is worth, and one that tells what somebody does."""

_WHO_IS: Final = re.compile(
    r"""^\W*(?:(?:and|so|ok(?:ay)?|please|tell\ me|do\ you\ know|remind\ me|again)\W+)*
        who(?:\ exactly)?(?:['’]s|\ is|\ are|\ was|\ were)\ (?:this\ |that\ )?
        (?P<name>[^\W\d_][\w'’.-]*(?:\ [^\W\d_][\w'’.-]*){0,3}?)
        (?:\ (?:again|exactly|anyway|please|then))*\s*[?.!]*\s*$
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_NAMES: Final = frozenset(
    """the a an my our your his her their this that these those in on at to there it he she they we i you going
    coming here responsible one""".split()
)
_DETERMINER: Final = r"(?:(?i:my|our|his|her|their|your|the|an?)|[A-Z][\w-]*['’]s)"
# "Sold the car to Tom" does not say who Tom is.
_TO: Final = r"(?:to|for|with|from|of|by|at|in|on|and|or|that|than|as|when|before|after)"
_DOES: Final = (
    r"(?:works?|teach(?:es)?|runs?|owns?|conducts?|leads?|heads?|plays?|studies|manages?|takes?\ over|took\ over"
    r"|keeps?|sells?|edits?|directs?|looks?\ after|is\ in\ charge|lives?|comes?\ from)"
)


def asks_who(text: str) -> str | None:
    """The name in "Who is Hana Sato?" as written; None for another question, and for "who is my boss"."""
    match = _WHO_IS.match(text)
    if match is None:
        return None
    name = match["name"].removesuffix("'s").removesuffix("’s")
    first = name.split()[0].casefold()
    if first in _NO_NAMES or re.search(r"['’]s?\s|\bof\b", match["name"]) or match["name"] != name:
        return None
    return name


@lru_cache(maxsize=256)
def _patterns(name: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Of a text that introduces the name, and of one that tells what its bearer does."""
    parts = r"[^\S\n]+".join(map(re.escape, name.split()))
    called = rf"\b(?i:{parts})\b"
    whole = rf"{called}(?:[^\S\n]+[A-Z][\w-]+)?"
    introduced = rf"""
        {whole}(?:['’]s|\ is|\ was|\ are|\ becomes|\ became)\ (?:now\ |also\ |still\ )?{_DETERMINER}\b
      | {whole},\ (?:{_DETERMINER}\b|who\b|whom\b|as\b|(?:it|he|she)(?:['’]s|\ is|\ was)\b
          |(?:[\w-]+\ ){{1,3}}(?:of|at|for|from|in|to)\b)
      | {_DETERMINER}\ (?:[\w-]+\ ){{0,3}}(?!{_TO}\ )[\w-]+,?\ (?:is\ |was\ |named\ |called\ )?{called}
      | \b(?:[Ii]['’]m|[Ii]\ am|[Tt]his\ is|[Mm]eet|[Nn]ame\ is|named|called|nicknamed)\ {called}
      | \b(?:call|calls|called)\ (?:him|her|it|me)\ {called}
      | {whole}\ (?:here|speaking)\b
      | {called}\ \("""
    return re.compile(introduced, re.VERBOSE), re.compile(rf"{whole}(?:\ [\w-]+)?\ {_DOES}\b", re.VERBOSE)


def introduces(text: str, name: str) -> float:
    """How far the text says who the person of that name is, in [0, 1]."""
    if name.split()[0].casefold() not in text.casefold():
        return 0.0
    introduced, does = _patterns(name)
    if introduced.search(text):
        return WHOLE
    return PARTLY if does.search(text) else 0.0
