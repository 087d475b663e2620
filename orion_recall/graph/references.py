"""What a memory refers to by name: memories by their ids, and URIs that may be those of memories.

An id counts where the sender says so - `in_reply_to` or `refers_to` in the metadata, one id or a list - or where
the text has it in double square brackets: `[[m-17]]`. A URI in the text is kept as it is: the memories that have it
as their own `uri` are what is quoted. Whether there is such a memory is not asked, for it may come later.
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
    """The ids it refers to, in order, its own left out; 16 at most."""
    found: dict[str, None] = {}
    for name in _FIELDS:
        given = memory.metadata.get(name)
        for one in given if isinstance(given, list | tuple) else (given,):
            if isinstance(one, str) and one:
                found[one] = None
    found |= dict.fromkeys(match.group(1).strip() for match in _BRACKETED.finditer(memory.text))
    return [one for one in found if one and one != memory.id][:_MOST]


def quoted_uris(memory: Memory) -> Sequence[str]:
    """The URIs in its text, in order, its own left out; 16 at most. What ends a sentence is no part of one."""
    found = dict.fromkeys(match.group().rstrip(".,;:!?)") for match in _URI.finditer(memory.text))
    return [one for one in found if one != memory.uri][:_MOST]
