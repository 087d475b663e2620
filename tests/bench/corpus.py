"""Synthetic memories and questions: the same seed gives the same texts, and time counts back from `now`.

Turns of 10 to 40 words in sessions of about twenty, by a few hundred people, over a year; one in a hundred fell
within the last three hours, so that the timeline has something to find.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.bench import corpus_words as lists

_PEOPLE = 300
_TURNS = 20
_RECENT_SHARE = 0.01
_RECENT_S, _YEAR_S, _DAY_S = 2.5 * 3600, 365 * 86_400, 86_400
_WITH_OPENER, _WITH_TAIL = 0.4, 0.5
_FEWEST_WORDS, _MOST_WORDS = 10, 40
_NAME_WORDS = frozenset(name.casefold() for name in (*lists.FIRST_NAMES, *lists.LAST_NAMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Memories as `RecallClient.store` takes them, oldest session first, and the ids of the latest sessions."""

    memories: list[dict[str, Any]]
    recent_sessions: list[str]


def corpus(size: int, *, now: float, seed: int = 7) -> Corpus:
    """`size` memories told up to `now` (epoch seconds)."""
    rng = random.Random(seed)
    people = _people(rng)
    recent = max(1, round(size * _RECENT_SHARE))
    starts = sorted(now - rng.uniform(_DAY_S, _YEAR_S) for _ in range(_sessions(size - recent)))
    newest = sorted(now - rng.uniform(_RECENT_S / 5, _RECENT_S) for _ in range(_sessions(recent)))
    memories: list[dict[str, Any]] = []
    for begins, last in ((starts, size - recent), (newest, size)):
        for start in begins:
            turns = min(_TURNS, last - len(memories))
            memories += _session(rng, people, start, len(memories), turns)
    sessions = [memory["session_id"] for memory in memories[-recent:]]
    return Corpus(memories=memories, recent_sessions=list(dict.fromkeys(sessions)))


def questions(*, seed: int = 11) -> Iterator[str]:
    """Questions without end, as many of each kind of form; no two are equal, not even without the names.

    Names are left out of what is embedded, so two questions that differ in nothing else would meet in the cache.
    """
    rng = random.Random(seed)
    people = _people(random.Random(7))
    asked: set[str] = set()
    while True:
        form = rng.choice(rng.choice((lists.QUESTIONS_WITH_NAMES, lists.QUESTIONS_WITHOUT_NAMES)))
        question = form.format(**_choices(rng, people))
        nameless = without_names(question)
        if nameless not in asked:
            asked.add(nameless)
            yield question


def without_names(text: str) -> str:
    """The text's words, folded, but for people's names."""
    return " ".join(word for word in re.findall(r"[\w'-]+", text.casefold()) if word not in _NAME_WORDS)


def _people(rng: random.Random) -> list[str]:
    names = [f"{first} {last}" for first in lists.FIRST_NAMES for last in lists.LAST_NAMES]
    return rng.sample(names, _PEOPLE)


def _sessions(memories: int) -> int:
    return -(-memories // _TURNS)


def _session(
    rng: random.Random, people: list[str], start: float, first: int, turns: int
) -> Iterator[dict[str, Any]]:
    """The turns of one talk between two or three people."""
    present = [_someone(rng, people) for _ in range(rng.choice((2, 2, 3)))]
    moment = start
    for turn in range(turns):
        number = first + turn
        yield {
            "id": f"m-{number:06d}",
            "text": _said(rng, people),
            "kind": "experience",
            "speaker": present[turn % len(present)],
            "session_id": f"s-{first:06d}",
            "occurred_at": datetime.fromtimestamp(moment, UTC).isoformat(),
        }
        moment += rng.uniform(10, 60)


def _said(rng: random.Random, people: list[str]) -> str:
    while True:
        opener = rng.choice(lists.OPENERS) if rng.random() < _WITH_OPENER else ""
        tail = rng.choice(lists.TAILS) if rng.random() < _WITH_TAIL else ""
        parts = (opener, rng.choice(lists.SAYINGS) + ".", tail)
        text = " ".join(part.format(**_choices(rng, people)) for part in parts if part)
        if _FEWEST_WORDS <= len(text.split()) <= _MOST_WORDS:
            return text[0].upper() + text[1:]


def _choices(rng: random.Random, people: list[str]) -> dict[str, str]:
    """A value for every slot of a sentence."""
    person = _someone(rng, people)
    thing, second = rng.sample(lists.OBJECTS, 2)
    return {
        "person": person,
        "first": person.partition(" ")[0],
        "other": _someone(rng, people),
        "place": rng.choice(lists.PLACES),
        "organisation": rng.choice(lists.ORGANISATIONS),
        "project": rng.choice(lists.PROJECTS),
        "object": thing,
        "second": second,
        "verb": rng.choice(lists.VERBS),
        "state": rng.choice(lists.STATES),
        "day": rng.choice(lists.DAYS),
        "number": str(rng.randrange(20, 900)),
    }


def _someone(rng: random.Random, people: list[str]) -> str:
    """Some are talked of far more than others: the first ten in a hundred get about a third."""
    return people[int(len(people) * rng.random() ** 2)]
