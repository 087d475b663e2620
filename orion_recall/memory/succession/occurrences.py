"""One time of what comes again: "the November meeting is cancelled" ends no club."""

from __future__ import annotations

import re
from typing import Final

_DAYS: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTHS: Final = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_COMES_AGAIN: Final = re.compile(
    rf"\b(?:every|each|weekly|monthly|daily|{_DAYS}s|{_DAYS} (?:mornings|afternoons|evenings|nights)"
    r"|of the month|(?:once|twice|three times) a)\b"
)
_ONE_TIME: Final = re.compile(
    rf"\b(?:(?:this|next|last) (?:week|month|time|{_DAYS}|evening|morning|afternoon)|(?:the|this) {_MONTHS}(?! \d)"
    rf"|tonight|today's|tomorrow|on the \d+(?:st|nd|rd|th)|on \d+ {_MONTHS})\b"
)
_FOR_GOOD: Final = re.compile(rf"\b(?:for good|any ?more|now|from (?:now|next|this|tomorrow|{_DAYS}|\d+))\b")


def comes_again(folded: str) -> bool:
    """Whether a folded text tells of what is every week, month or so."""
    return _COMES_AGAIN.search(folded) is not None


def is_of_one_time(folded: str) -> bool:
    """Whether a folded text tells of one time of something, as "the November meeting", and not of all."""
    return _ONE_TIME.search(folded) is not None and _FOR_GOOD.search(folded) is None
