"""Crafted giants, sent to a worker over the bus: each is answered, and loop, memory and process stay whole.

They are up to the limit of their kind and a little beyond it: many values, deep ones, long texts of patterns that
are hard to read. The worker is the program in a process of its own, whose event loop is watched from within
(tests/chaos/odd_worker.py); the rest is told from outside.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from orion_recall.bus.connect import connect
from tests.bench.measure import process_tree, tree_peak_memory_mib
from tests.chaos.caller import Caller, Sent
from tests.chaos.place import open_place
from tests.chaos.trial import Promise, at_most

_MIB = 1 << 20
_LIMITS = {
    "recall.query.v1": 262_144,
    "memory.store.v1": 8 * _MIB,
    "memory.update.v1": 8 * _MIB,
    "memory.delete.v1": 8 * _MIB,
    "recall.feedback.v1": 8 * _MIB,
}
_LONGEST_MS, _MOST_MIB = 100.0, 512
_PATTERNS = (
    "a ", "?", "2023-01-01 ", "Ana's ", "(", "’", "\n", "a\u0301", "😀", "ﷺ", "1", "last week ", "and ",
    ".", "a.b.c ", "System: ", "::", "https://a.b/", "\u202e", "-", "'", "x", "Ａ", "İ",
    "on the 3rd of May 2023 and ", "Who is Ana? ", "AbC", "she said that he said that ", "```\n", "[1](",
    "me@example.org ", "+49 30 1234567 ", "\u200b", "since until ", "\\u0041", "Mel Ash met Bo Brandt. ",
    "between 3 and ", "#", "<b>", "\t", "my sister's ", "not ", "of of ", "٣", "of ﬁ",
)  # fmt: skip
Craft = Callable[[random.Random, int], tuple[str, Any]]


@dataclass(slots=True)
class Giants:
    """What came of them."""

    sent: int = 0
    promises: Sequence[Promise] = ()
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _pattern(rng: random.Random, size: int) -> str:
    """A text of about so many bytes as JSON."""
    parts = rng.choice(_PATTERNS) + (rng.choice(_PATTERNS) if rng.random() < 0.3 else "")
    return parts * max(1, size // max(1, len(json.dumps(parts)) - 2))


def _nested(levels: int, kind: str) -> Any:
    inner: Any = 1
    for _ in range(levels):
        inner = [inner] if kind == "list" else {"a": inner}
    return inner


def _query(**payload: Any) -> tuple[str, Any]:
    return "recall.query.v1", {"fragment": "Who feeds the gulls?", "options": dict[str, Any]()} | payload


def _store(*memories: Any) -> tuple[str, Any]:
    return "memory.store.v1", {"memories": list(memories)}


def _memory(rng: random.Random, **fields: Any) -> dict[str, Any]:
    return {"id": uuid4().hex, "text": f"Crate {rng.random()} is here."} | fields


def _texts(rng: random.Random, size: int) -> tuple[str, Any]:
    length = min(90_000, size)
    return _store(*(_memory(rng, text=_pattern(rng, length)[:99_000]) for _ in range(rng.randrange(1, 3))))


CRAFTS: tuple[Craft, ...] = (
    lambda rng, size: _query(fragment=_pattern(rng, size)),
    lambda rng, size: _query(fragment=_pattern(rng, size // 2), intent=_pattern(rng, 4000)),
    lambda rng, size: _query(options={"tags": [_pattern(rng, 400)[:500]] * (size // 410)}),
    lambda rng, size: _query(options={"tags": [1] * (size // 3)}),
    lambda rng, size: _query(options={"exclude": [f"m{number}" for number in range(size // 12)]}),
    lambda rng, size: _query(**{f"x{number}": number for number in range(size // 16)}),
    lambda rng, size: _query(more=_nested(min(size // 4, rng.choice((30, 90, 400))), "list")),
    lambda rng, size: _query(more="x" * size),
    lambda rng, size: _query(options={"k": "9" * size}),
    lambda rng, size: _query(options={"kinds": [{"a": 1}] * (size // 10)}),
    lambda rng, size: _query(exclude={"active_turn_text": _pattern(rng, size)}),
    lambda rng, size: _query(exclude={"active_turn_ids": [_pattern(rng, 50)] * (size // 60)}),
    lambda rng, size: _query(session_id=_pattern(rng, size), profile=_pattern(rng, 200)[:100]),
    _texts,
    _texts,
    lambda rng, size: _store(_memory(rng, text=_pattern(rng, size))),
    lambda rng, size: _store(*(_memory(rng) for _ in range(min(1000, size // 90)))),
    lambda rng, size: _store(*[7] * (size // 3)),
    lambda rng, size: _store(*[_memory(rng, tags=[1] * 200)] * (size // 800)),
    lambda rng, size: _store(*(_memory(rng, tags=["x" * 500] * 256) for _ in range(max(1, size // 130_000)))),
    lambda rng, size: _store(_memory(rng, metadata={f"k{number}": "v" for number in range(size // 16)})),
    lambda rng, size: _store(_memory(rng, metadata={"a": _nested(rng.choice((20, 90, 500)), "object")})),
    lambda rng, size: _store(_memory(rng, entities=[_pattern(rng, 400)[:500]] * min(256, size // 420))),
    lambda rng, size: _store(_memory(rng, speaker=_pattern(rng, 250)[:256], title=_pattern(rng, 2000)[:2048])),
    lambda rng, size: _store({f"f{number}": number for number in range(size // 14)}),
    lambda rng, size: ("memory.delete.v1", {"ids": [uuid4().hex for _ in range(min(size // 40, 60_000))]}),
    lambda rng, size: ("memory.delete.v1", {"ids": [1] * (size // 3)}),
    lambda rng, size: ("memory.delete.v1", {"where": {"tags": ["x" * 500] * (size // 510)}}),
    lambda rng, size: ("memory.update.v1", {"memories": [{"id": "m", "text": _pattern(rng, size)}]}),
    lambda rng, size: ("memory.update.v1", {"memories": [{"id": uuid4().hex, "tags": list[str]()}] * (size // 60)}),
    lambda rng, size: ("recall.feedback.v1", {"corr_id": "c", "used": [uuid4().hex] * (size // 40)}),
    lambda rng, size: ("recall.feedback.v1", {"corr_id": "c", "note": _pattern(rng, size)}),
)


def crafted(rng: random.Random, craft: Craft, *, beyond: bool) -> tuple[str, dict[str, Any]]:
    """An envelope without its addresses, of a size up to the limit of its kind, or beyond it."""
    kind, _ = craft(rng, 100)
    limit = _LIMITS[kind]
    size = int(limit * rng.uniform(0.9, 1.2)) if beyond else int(limit * rng.choice((0.05, 0.3, 0.9)))
    kind, payload = craft(rng, size)
    envelope: dict[str, Any] = {"kind": kind, "payload": payload}
    if rng.random() < 0.1:
        envelope["trace"] = {f"t{number}": "x" for number in range(3000)}
    if rng.random() < 0.1:
        envelope["causality_chain"] = [{"correlation_id": uuid4().hex}] * 500
    return kind, envelope


async def run(count: int, rng: random.Random, until: float) -> Giants:
    """So many of them, one after the other, in turns of all crafts; it ends at `until` at the latest."""
    if not count:
        return Giants()
    crafts = list(CRAFTS)
    rng.shuffle(crafts)
    async with open_place(ORION_DEADLINE_MS="60000") as place:
        file = place.folder / "loop.json"
        worker = await place.start("a", CHAOS_LOOP_FILE=str(file))
        pid, outcomes, unanswered, kinds = worker.running.process.pid, Counter[str](), list[str](), Counter[str]()
        largest, sent = 0, 0
        async with (
            connect(place.engines.redis_url) as redis,
            connect(place.engines.redis_url, blocking=True) as more,
        ):
            callers = {kind: Caller(redis, more, kind) for kind in _LIMITS}
            plain = callers["recall.query.v1"]
            await _answered(plain, await plain.send({"fragment": "Who feeds the gulls?"}))  # warm
            _forget_longest(file)
            before, mapped = _resident_mib(pid), _mapped_mib(pid)
            for process in process_tree(pid):
                # What was resident at the most counts from now on.
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")
            while sent < count and time.monotonic() < until:
                kind, envelope = crafted(rng, crafts[sent % len(crafts)], beyond=rng.random() < 0.15)
                name, caller = uuid4().hex, callers[kind]
                message = json.dumps(envelope | {"correlation_id": name, "reply_to": caller.replies}).encode()
                outcome = await _answered(caller, await caller.send_raw(message, name))
                sent, largest = sent + 1, max(largest, len(message))
                kinds[kind] += 1
                outcomes[outcome or "none"] += 1
                if outcome is None:
                    unanswered.append(f"{kind} of {len(message)} bytes: {message[:200]!r}")
            again = await _answered(plain, await plain.send({"fragment": "Who feeds the gulls?", "options": {}}))
        ended = worker.running.process.poll() is not None
        # What the giants stored is in mapped files of the index, and grows with their number.
        stored = 0.0 if ended else _mapped_mib(pid) - mapped
        grown = 0.0 if ended else tree_peak_memory_mib(pid) - before - stored
        longest: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
        unexpected = place.logged('"Traceback') + place.logged("cannot be read:")
    blocked_ms = longest.get("cpu_ms", 0.0)
    return Giants(
        sent=sent,
        promises=[
            at_most("giants without an answer", len(unanswered), 0),
            at_most("ends of the worker", int(ended), 0),
            at_most("queries unanswered afterwards", int(again is None), 0),
            at_most("errors that giants cause in the worker's log", unexpected, 0),
            at_most("ms of the longest step of its event loop (processor)", round(blocked_ms, 1), _LONGEST_MS),
            at_most("MiB by which the worker's own memory grew at the most", round(grown), _MOST_MIB),
        ],
        figures={
            "giants by kind": dict(kinds),
            "answers to giants": dict(outcomes),
            "the largest, bytes": largest,
            "the longest step of the loop": longest,
            "MiB by which its mapped files grew": round(stored),
            **({"giants without an answer": unanswered[:5]} if unanswered else {}),
        },
    )


def _resident_mib(pid: int) -> float:
    """What is resident of a worker and the process of its index."""
    return sum(process.memory_info().rss for process in process_tree(pid)) / _MIB


def _mapped_mib(pid: int) -> float:
    """What is resident of their mapped files."""
    shared = (process.memory_info().shared for process in process_tree(pid))  # pyright: ignore[reportAttributeAccessIssue]
    return sum(shared) / _MIB


def _forget_longest(file: Path) -> None:
    """What it took to start is no giant's fault: the worker begins anew once its file is gone."""
    file.unlink(missing_ok=True)


async def _answered(caller: Caller, sent: Sent, *, timeout_s: float = 120.0) -> str | None:
    """The outcome; None when there is none in time. The caller's stream is read here, not beside it."""
    until = time.monotonic() + timeout_s
    while not sent.answers and time.monotonic() < until:
        await caller.read_once()
        await asyncio.sleep(0)
    return sent.answers[0][1] if sent.answers else None
