"""Places in texts: whether a text names one, as "in Lund", "9 Mill Lane" or "rue Curiol". English, mainly."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_KEPT: Final = 4096
_NO_PLACE: Final = """
    (?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|January|February|March|April|May|June|July|August|September|October
    |November|December|Christmas|Easter|Mr|Mrs|Ms|Miss|Dr|I
"""
_STREETS: Final = "Street|St|Road|Rd|Lane|Avenue|Ave|Square|Quay|Terrace|Close|Drive|Court|Gardens|Boulevard|Wharf"
_PLACE: Final = re.compile(
    rf"""\b(?:in|at|to|into|on|near|opposite|behind|outside|around|off|through|across|far\s+from|visit(?:ed|ing|s)?)\s+(?:the\s+|our\s+|my\s+)?(?!(?:{_NO_PLACE})\b)[A-Z]
       | \b\d{{1,4}}[a-z]?,?\s+(?!(?:{_NO_PLACE})\b)[A-Z][a-z]
       | \b\d{{1,4}}[a-z]?,?\s+(?:rue|avenue|boulevard|quai|place|via|calle)\s
       | \b(?:rue|quai|calle)\s+(?:de\s+|du\s+|la\s+|des\s+)*[A-Z]
       | \b[A-Z]\w+\s+(?:{_STREETS})\b
       | \w(?:straße|strasse|gasse|weg|platz)\b
    """,
    re.VERBOSE,
)


_HOME: Final = re.compile(
    r"\b(?:live|lives|lived|living|reside|resides|flat|apartment|house|home|address|moved?|moving|rent|rents|rented"
    r"|rooms?|lease)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=_KEPT)
def gives_place(text: str) -> bool:
    """Whether the text names a place: a name after a word of place, or an address."""
    return _PLACE.search(text) is not None


@lru_cache(maxsize=_KEPT)
def gives_home(text: str) -> bool:
    """Whether the text may say where somebody lives: it names a place, and has a word of living somewhere."""
    return _HOME.search(text) is not None and gives_place(text)
