"""Words of a turn that refer to an earlier one: "as we discussed", "like you said last week", and quotations.

English only, but for quotations. References by id are read by `graph.references`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from orion_recall.text.normal import words

SaidBy = Literal["you", "we", "i"]
"""Who said what is referred to: another speaker, any of them, or the turn's own speaker."""

_MOST_CHARS: Final = 4000
_FEWEST_WORDS: Final = 3
_MOST_QUOTATIONS: Final = 8
# At most three words between, and each in one way only: no text makes the search slow.
_BETWEEN: Final = r"(?:['’](?:ve|d)|\s+(?:have|had|already|also|once|just|both|all|first|last|\w{2,12}ly)){0,3}"
_SAID: Final = r"""(?:said|told|mentioned|discussed|agreed|promised|suggested|recommended|explained|asked|wrote
    |described|decided|planned|(?:talked|spoke|chatted|were\s+talking)(?:\s+about)?)"""
_UNIT: Final = r"""(?:time|night|week|weekend|month|year|spring|summer|autumn|fall|winter|morning|afternoon|evening
    |\w{3,6}day)"""
_BEFORE: Final = rf"""(?:earlier|before|previously|already|yesterday|once|back\s+then|the\s+other\s+(?:day|week)
    |\w+\s+\w+\s+ago|(?:last|this)\s+{_UNIT}|(?:on|in)\s+[A-Z]\w+)"""
_TALK: Final = r"(?:talk|chat|conversation|discussion|message)"
_REFERS: Final = re.compile(
    rf"""\b(?:as|like|what|the\s+\w+(?:\s+that)?|everything|that)\s+(?P<led>you|we|i){_BETWEEN}\s+{_SAID}\b
      | \b(?P<dated>you|we|i){_BETWEEN}\s+{_SAID}\b[^.!?\n]{{0,60}}?\s{_BEFORE}\b
      | \b(?:earlier|yesterday|last\s+{_UNIT})\s*,?\s+(?P<after>you|we|i){_BETWEEN}\s+{_SAID}\b
      | \bremember\s+(?:when|what|how|that)\s+(?P<recalled>you|we|i)\b
      | \b(?:as|like)\s+(?:already\s+)?(?:discussed|mentioned|agreed|promised|described|suggested)\b
      | \b(?:back|returning)\s+to\s+(?:what|our|your)\b
      | \b(?:our|your)\s+(?:last|earlier|previous)\s+{_TALK}\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"\"([^\"\n]{6,300})\"|“([^”\n]{6,300})”|„([^“”\n]{6,300})[“”]|«([^»\n]{6,300})»")


def refers_back(text: str) -> SaidBy | None:
    """Whose earlier words the turn refers to; None where it refers to none. The first reference counts."""
    match = _REFERS.search(text[:_MOST_CHARS])
    if match is None:
        return None
    named = next((match[name] for name in ("led", "dated", "after", "recalled") if match[name]), "we").casefold()
    return "you" if named == "you" else "i" if named == "i" else "we"


def quotations(text: str) -> Sequence[str]:
    """What the text has in quotation marks, of three words or more, in normal form; 8 at most, each once."""
    found: dict[str, None] = {}
    for match in _QUOTED.finditer(text[:_MOST_CHARS]):
        said = words(next(filter(None, match.groups())))
        if len(said) >= _FEWEST_WORDS:
            found[" ".join(said)] = None
    return list(found)[:_MOST_QUOTATIONS]
