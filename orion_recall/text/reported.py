"""Reported speech: verbs of saying, and whether a text reports what somebody said. English only."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

# The base form, then the others.
_VERBS: Final = """
say says said saying|tell tells told telling|write writes wrote written writing
mention mentions mentioned mentioning|promise promises promised promising
complain complains complained complaining|ask asks asked asking|recommend recommends recommended recommending
suggest suggests suggested suggesting|advise advises advised advising|propose proposes proposed proposing
report reports reported reporting|announce announces announced announcing
explain explains explained explaining|answer answers answered answering|reply replies replied replying
warn warns warned warning|remind reminds reminded reminding|confirm confirms confirmed confirming
claim claims claimed claiming|state states stated stating|offer offers offered offering
request requests requested requesting|apologise apologises apologised apologising
apologize apologizes apologized apologizing|admit admits admitted admitting|insist insists insisted insisting
text texts texted texting|email emails emailed emailing|message messages messaged messaging
"""
# In a text of somebody else these tell what a person said, too; in a question they ask for something else.
_ALSO_TELLING: Final = """
wants wanted thinks thought believes believed finds needs needed hopes hoped expects expected agreed agrees
refused refuses invited invites called calls rang phoned wrote sends sent
"""
_FORMS: Final = tuple(tuple(group.split()) for group in _VERBS.strip().replace("\n", "|").split("|"))
SAYING: Final[frozenset[str]] = frozenset(form for forms in _FORMS for form in forms)
"""Every form of a verb of saying."""
BASE_FORMS: Final[frozenset[str]] = frozenset(forms[0] for forms in _FORMS)
"""The forms that follow "did": say, tell, write."""
SAID: Final[frozenset[str]] = frozenset(form for forms in _FORMS for form in forms[1:] if not form.endswith("ing"))
"""The forms that follow a name: says, said."""
NOUNS: Final[frozenset[str]] = frozenset(
    """advice suggestion suggestions recommendation recommendations answer reply message messages mail mails email
    emails letter letters note comment comments remark remarks warning request promise""".split()
)
"""What somebody says, by name."""

_TELLING: Final = "|".join(sorted(SAID | frozenset(_ALSO_TELLING.split()), key=len, reverse=True))
_BETWEEN: Final = r"(?:[^\S\n]+(?!(?:and|but|who|that|which)\b)[\w'’.-]+){0,2}?"
_PRONOUN: Final = re.compile(rf"\b(?:he|she|they)(?:['’](?:s|d))?{_BETWEEN}\s+(?:{_TELLING})\b", re.IGNORECASE)


_NOUNS: Final = "|".join(sorted(NOUNS, key=len, reverse=True))
# What makes a name a report: Ana said, Ana has just told me, Ana (the plumber) wrote, Ana's advice.
_AFTER: Final = re.compile(
    rf"""\b(?:[^\S\n]+[A-Z][\w-]+)?(?:,[^,.!?\n]{{1,60}},|,)?{_BETWEEN}\s+(?:{_TELLING})\b
      | ['’]s?\s+(?:{_NOUNS})\b""",
    re.VERBOSE | re.IGNORECASE,
)
# Told by Ana, according to Ana, a mail from Ana, said Ana.
_BEFORE: Final = re.compile(
    rf"""\b(?:(?:according\s+to|(?:{_NOUNS}|word|news|call)\s+(?:of|from|by)|heard\s+from
           |(?:told|asked|warned|advised|promised)\s+by)\s+(?:(?:my|our|the)\s+)?
         |(?:said|says|asked|wrote|replied|answered)\s+)\Z""",
    re.VERBOSE | re.IGNORECASE,
)
_POSSESSIVE: Final = re.compile(r"['’]s?(?!\w)", re.IGNORECASE)
_LONGEST_BEFORE: Final = 120
_BOUNDARY: Final = re.compile(r"\b")


@lru_cache(maxsize=4096)
def _called(name: str) -> re.Pattern[str]:
    """The places where the name stands. To make a pattern costs much, so the long ones have no name in them."""
    spelled = r"[^\S\n]+".join(map(re.escape, name.split()))
    return re.compile(rf"(?=({spelled}))", re.IGNORECASE)


def reports(text: str, names: Collection[str]) -> bool:
    """Whether the text reports what one of these said: "Ana wrote that …", "I rang Ana … She says …".

    Names are folded, words with single spaces.
    """
    folded = text.casefold()
    return any(name in folded and not _is_other(text, name, names) and _is_reported(text, name) for name in names)


def _is_reported(text: str, name: str) -> bool:
    """Whether words before or after the name, or a pronoun behind it, report what somebody of this name said."""
    free: int | None = None
    for match in _called(name).finditer(text):
        start, end = match.span(1)
        if _BOUNDARY.match(text, start) and _AFTER.match(text, end):
            return True
        if _BOUNDARY.match(text, end) and _BEFORE.search(text, max(0, start - _LONGEST_BEFORE), start):
            return True
        if free is None and _POSSESSIVE.match(text, end) is None:
            free = end  # what is behind a later one is behind this one
    return free is not None and _PRONOUN.search(text, free) is not None


def _is_other(text: str, name: str, names: Collection[str]) -> bool:
    """Whether the text gives the first name another last name: "Hana Brook" is not "hana sato"."""
    if " " in name or not any(other.startswith(f"{name} ") for other in names):
        return False
    last = re.search(rf"\b(?i:{re.escape(name)})[^\S\n]+([A-Z][\w-]+)", text)
    return last is not None and f"{name} {last[1].casefold()}" not in names
