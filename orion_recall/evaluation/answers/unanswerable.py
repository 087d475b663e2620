"""Questions that nothing answers: those of one conversation, asked in another.

A speaker's name in a question becomes that of a speaker there, so that people are known and what is asked of them
is not. Now and then such a question has an answer by chance; it is too seldom to matter to what is learned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from orion_recall.contracts import RecallQueryV1
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.profile import Profile
from orion_recall.recall.confidence.signals import asked_about
from orion_recall.recall.understand.question import understand
from orion_recall.text.normal import words
from orion_recall.values import Memory

_MOST_SPEAKERS = 4
_MOST_CHARS = 300
# An assistant is in every chat, and no name is put in its place.
_ROLES = frozenset({"assistant", "user", "system", "bot"})

Speakers = Mapping[str, Sequence[str]]
T = TypeVar("T")


def speakers_of(memories: Sequence[Memory]) -> Speakers:
    """The speakers of every conversation, those who say most first."""
    counts: dict[str, Counter[str]] = {}
    for memory in memories:
        found = counts.setdefault(memory.tenant, Counter())
        if memory.speaker and memory.speaker.casefold() not in _ROLES:
            found[memory.speaker] += 1
    return {conversation: [name for name, _ in found.most_common()] for conversation, found in counts.items()}


def asks_for_something(query: JudgedQuery, speakers: Speakers, profile: Profile) -> bool:
    """Whether it asks for more than whatever there is of a time, which any conversation would answer."""
    understood = understand(
        RecallQueryV1(fragment=query.text),
        profile,
        now=query.asked_at or 0.0,
        speakers=frozenset(speakers.get(query.conversation, ())),
    )
    return not asked_about(understood).is_open


def unanswerable(
    there: Speakers,
    queries: Sequence[JudgedQuery],
    speakers: Speakers,
    *,
    count: int,
    seed: int,
) -> list[dict[str, Any]]:
    """For each conversation `there` up to `count` of the queries of others, as lines of a queries file.

    `speakers` are those of the queries' own conversations.
    """
    dice = np.random.default_rng(seed)
    made: list[dict[str, Any]] = []
    for conversation, names in there.items():
        others = [
            query
            for query in queries
            if query.conversation != conversation and query.is_answerable and len(query.text) <= _MOST_CHARS
        ]
        made.extend(
            {
                "query_id": f"{conversation}<{query.id}",
                "conversation_id": conversation,
                "query": _renamed(query.text, speakers.get(query.conversation, ()), names, dice),
                "category": "unanswerable",
                "evidence": [],
            }
            for query in _drawn(others, count, dice)
        )
    return made


def _drawn(those: Sequence[T], count: int, dice: np.random.Generator) -> list[T]:
    """So many of them at most, in a random order."""
    order: list[int] = dice.permutation(len(those)).tolist()
    return [those[place] for place in order[:count]]


def _renamed(text: str, speakers: Sequence[str], names: Sequence[str], dice: np.random.Generator) -> str:
    """The text with each speaker's first name, and full name, replaced by the first name of one of `names`."""
    if not names:
        return text
    chosen = _drawn(names[:_MOST_SPEAKERS], _MOST_SPEAKERS, dice)
    for place, speaker in enumerate(speakers):
        if not words(speaker):
            continue
        new = chosen[place % len(chosen)].split()[0]
        for name in dict.fromkeys((speaker, speaker.split()[0])):
            text = re.sub(rf"\b{re.escape(name)}\b", new, text)
    return text
