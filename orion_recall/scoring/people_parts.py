"""Values of the score parts of people: who said it, who asks, who is asked about."""

from __future__ import annotations

import re

from orion_recall.scoring.part_values import READ_CHARS, Column, PartInputs
from orion_recall.text.people.introductions import introduces
from orion_recall.text.people.kin import tells_kin
from orion_recall.values import MemoryView

_ADDRESSES = re.compile(r"\b(?:you|your|yours)\b", re.IGNORECASE)


def role(given: PartInputs) -> Column | None:
    """0 for what an assistant said and 1 for all else; the reverse where the question asks what an assistant said.

    None where no candidate, or every one, is an assistant's."""
    if not any(given.assistants) or all(given.assistants):
        return None
    wanted = given.facts.asks_assistant
    return [1.0 if one == wanted else 0.0 for one in given.assistants]


def asker(given: PartInputs) -> Column | None:
    """1 for what the one who asks has said, or was told; 0 for what others say of themselves; 0.5 for the rest.

    Where the question is in the first person, and asks for nobody else's words. "I live in Bergen" said by another
    is no answer to "Where do I live?", but "you live" is one."""
    me = given.facts.asker
    if me is None or given.facts.named_speaker not in (None, me):
        return None
    first_name = (me.split() or [me])[0]
    return [_of_asker(memory, me, first_name) for memory in given.memories]


def _of_asker(memory: MemoryView, me: str, first_name: str) -> float:
    if memory.speaker == me:
        return 1.0
    text = memory.best_text[:READ_CHARS]
    if first_name in text or _ADDRESSES.search(text) is not None:
        return 1.0
    return 0.0 if memory.first_person and memory.speaker is not None else 0.5


def introduction(given: PartInputs) -> Column | None:
    """How far a text says who somebody is, where the question asks that: of a person, or of a family."""
    if (name := given.facts.who) is not None:
        column = [introduces(memory.best_text[:READ_CHARS], name) for memory in given.memories]
    elif given.facts.asks_family:
        column = [1.0 if tells_kin(memory.best_text[:READ_CHARS]) else 0.0 for memory in given.memories]
    else:
        return None
    return column if any(column) else None
