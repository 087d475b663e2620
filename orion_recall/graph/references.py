"""References from a memory to other memories: by id, and by URI.

Ids come from `in_reply_to` and `refers_to` in the metadata (one id or a list) and from double square brackets in
the text: `[[m-17]]`. A URI in the text refers to the memories whose own `uri` it is. References are not checked:
the memory they name may be stored later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orion_recall.values import Memory

_FIELDS = ("in_reply_to", "refers_to")
_BRACKETED = re.compile(r"\[\[([^\[\]\n]{1,200})\]\]")
_URI = re.compile(r"\b(?:[a-z][a-z0-9+.-]{1,20}://|urn:|mailto:|doi:)[^\s<>\"'`{}|\\^\[\]]{1,500}", re.IGNORECASE)
_MOST = 16


def referred_ids(memory: Memory) -> Sequence[str]:
    """The ids that the memory refers to, in order, without its own; 16 at most."""
    found: dict[str, None] = {}
    for name in _FIELDS:
        given = memory.metadata.get(name)
        for one in given if isinstance(given, list | tuple) else (given,):
            if isinstance(one, str) and one:
                found[one] = None
    found |= dict.fromkeys(match.group(1).strip() for match in _BRACKETED.finditer(memory.text))
    return [one for one in found if one and one != memory.id][:_MOST]


def quoted_uris(memory: Memory) -> Sequence[str]:
    """The URIs in the memory's text, in order, without its own and without trailing punctuation; 16 at most."""
    found = dict.fromkeys(match.group().rstrip(".,;:!?)") for match in _URI.finditer(memory.text))
    return [one for one in found if one != memory.uri][:_MOST]
