"""Sessions named by their place: "our first session", "session 4", "the last time we talked"."""

from __future__ import annotations

import re
from typing import Final

from orion_recall.when.vocabulary import DAY_WORDS

MOST_SESSIONS: Final = 200
"""A session is named by a number up to this one."""

_BEFORE_LAST: Final = r"(?:second|next)[\s-]+to[\s-]+last|last\s+but\s+one|penultimate"
_SESSION: Final = r"(?:session|conversation|chat|talk)\b(?!\s+(?:room|rooms|show|shows|app|bot)\b)"
_NUMBERED: Final = "|".join(sorted(DAY_WORDS, key=len, reverse=True))
_PLACE: Final = re.compile(
    rf"""\b(?:(?P<before_last>{_BEFORE_LAST})
           |(?P<last>last|latest|final|previous|most\s+recent)
           |(?P<ordinal>{_NUMBERED})
           |(?P<figure>\d{{1,3}})(?:st|nd|rd|th))\s+
        (?:{_SESSION}|time\s+(?:that\s+)?(?:we|i|you|they)\s+(?:talked|spoke|chatted|met)\b)
      | \b(?P<before>(?:session|conversation|chat|talk)\s+before\s+(?:the\s+)?last)(?:\s+one)?\b
      | \b(?:session|conversation|chat)\s+(?:number\s+|no\.?\s*|nr\.?\s*|\#\s*)?(?P<number>\d{{1,3}})\b
        (?!\s*(?:%|percent|people|persons|minutes?|hours?|days?|times?)\b)""",
    re.VERBOSE | re.IGNORECASE,
)


def session_named(text: str) -> tuple[int, str] | None:
    """Which session the text names, from 1 on or from -1 back (the last), and the words that name it."""
    if (match := _PLACE.search(text)) is None:
        return None
    if match["before_last"] or match["before"]:
        place = -2
    elif match["last"]:
        place = -1
    else:
        figure = match["figure"] or match["number"]
        place = int(figure) if figure else DAY_WORDS.get(match["ordinal"].casefold(), 0)
    return (place, match[0]) if place and place <= MOST_SESSIONS else None


def session_words(place: int) -> str:
    """The place in words: first, last, or such as 4th."""
    if place in (1, -1, -2):
        return {1: "first", -1: "last", -2: "second to last"}[place]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th") if place % 100 not in (11, 12, 13) else "th"
    return f"{place}{ending}"
