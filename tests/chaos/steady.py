"""Queries and stores at a steady rate, while workers and engines fail: one answer each, and nothing is lost.

Two workers with settings as shipped, each of one process or of several. While messages come, one fault follows the
other, each after the service was back to normal. In a phase of its own the bus is flushed. What was sent and
answered is counted by the caller, what was decided and stored by SQL, what is left by redis commands.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from orion_recall.bus.connect import connect
from tests.acceptance.processes import MEMORIES
from tests.bench.command import say
from tests.bench.measure import percentile
from tests.chaos.caller import Caller, Sent, caller_on
from tests.chaos.faults import FAULTS
from tests.chaos.place import QUERIES, STORES, Place, fill, open_place
from tests.chaos.trial import Promise, Trial, at_most

_GOOD = ("ok", "empty", "stored", "unchanged")
_NORMAL_S = 1.0
# A reply that comes twice comes after another worker has claimed its entry.
_AFTERWARDS_S = 8.0
# Nothing more comes for so long: what is not there by then is missing, however slow the machine is.
_STALLED_S = 120.0
_TTL_MS = 120_000
_LOST = re.compile(rf"{QUERIES} was emptied by somebody [^:]*: about (\d+) entries")


@dataclass(slots=True)
class Load:
    """What is sent, and what was done meanwhile: each fault with when it began and when all was in its place."""

    queries: Caller
    stores: Caller
    rng: random.Random
    faults: list[tuple[str, float, float]] = field(default_factory=list[tuple[str, float, float]])
    stored: int = 0

    async def send(self, queries: int, stores: int, per_s: float, until: float) -> None:
        """So many of both that the bus has taken, at a steady rate; what it did not take is sent anew.

        It ends at `until` at the latest.
        """
        wanted, began, done = queries + stores, time.monotonic(), 0
        kinds = [True] * queries + [False] * stores
        self.rng.shuffle(kinds)
        while done < wanted and time.monotonic() < until:
            if (early_s := began + done / per_s - time.monotonic()) > 0:
                await asyncio.sleep(early_s)
            sent = await (self._ask() if kinds[done] else self._store())
            if sent.is_sure:
                done += 1
                continue
            # Nothing is made up for: the load stays steady.
            pause_s = 0.1
            began += pause_s
            await asyncio.sleep(pause_s)

    async def _ask(self) -> Sent:
        text = f"what did Ana say about crate number {self.rng.randrange(40)} and {self.rng.random():.6f}?"
        payload: dict[str, Any] = {"fragment": text, "options": {}}
        if self.rng.random() < 0.3:
            payload["profile"] = self.rng.choice(("assist.light.v1", "deep.graph.v1"))
        ttl_ms = _TTL_MS if self.rng.random() < 0.3 else None
        return await self.queries.send(payload, ttl_ms=ttl_ms)

    async def _store(self) -> Sent:
        self.stored += 1
        name = f"steady-{self.stored}"
        memory = {"id": name, "text": f"Lorry {name} brought {self.rng.randrange(900)} bottles.", "speaker": "Bo"}
        return await self.stores.send({"memories": [memory]}, about=name)


async def run(
    *,
    queries: int,
    stores: int,
    per_s: float,
    seed: int,
    faults: Sequence[str] = (),
    most_minutes: float = 600.0,
    processes: int = 1,
) -> Trial:
    """The trial, with these faults only where some are named; sending ends after so many minutes at the latest."""
    began, rng = time.monotonic(), random.Random(seed)
    wanted = faults or tuple(FAULTS)
    async with open_place(with_small_disk="disk full" in wanted, processes=processes) as place:
        cannot = {"disk full": place.small_disk is None, "process killed": processes == 1}
        done = [name for name in wanted if not cannot.get(name)]
        assert done, "no file system can be mounted here, or a worker is one process: as root, or with other faults"
        await asyncio.gather(place.start("a"), place.start("b"))
        await fill(place, MEMORIES)
        async with (
            caller_on(place.engines.redis_url, QUERIES) as asked,
            caller_on(place.engines.redis_url, STORES) as stored,
        ):
            load = Load(asked, stored, rng)
            sending = load.send(queries, stores, per_s, began + most_minutes * 60)
            await _with_faults(place, load, sending, queries / per_s, done)
            promises, figures = await _counted(place, load, began)
            asked_of, stored_of = len(asked.sure), len(stored.sure)
            flush_promises, flushed = await _flush(place, asked, min(200, max(40, queries // 20)), per_s)
    return Trial(
        name="steady",
        size=f"{asked_of:,} queries and {stored_of:,} stores at {per_s:g} a second, {len(load.faults)} faults, "
        f"two workers of {processes}",
        promises=promises + flush_promises,
        figures=figures | {"flush": flushed, "faults that cannot be done here": [*{*wanted} - {*done}]},
        seconds=time.monotonic() - began,
    )


async def _with_faults(
    place: Place, load: Load, send: Coroutine[Any, Any, None], seconds: float, faults: Sequence[str]
) -> None:
    sending = asyncio.create_task(send)
    try:
        await asyncio.sleep(min(2.0, seconds / 10))
        left: list[str] = []
        while not sending.done():
            if not left:
                left = list(faults)
                load.rng.shuffle(left)
            name, began = left.pop(), time.monotonic()
            await FAULTS[name](place, load.rng)
            load.faults.append((name, began, time.monotonic()))
            await _normal(load)
            say(
                f"{name}: {time.monotonic() - began:.1f} s; {len(load.queries.sure)} queries sent, "
                f"{len(load.queries.waiting)} wait"
            )
            await asyncio.sleep(load.rng.uniform(0.2, 2.0))
        await sending
    finally:
        sending.cancel()
    for caller in (load.queries, load.stores):
        await caller.all_answered(stalled_s=_STALLED_S)
    await asyncio.sleep(_AFTERWARDS_S)


async def _normal(load: Load) -> None:
    """Wait until nothing waits for long; what never comes is counted at the end."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        now = time.monotonic()
        if not any(now - sent.at > _NORMAL_S for sent in (*load.queries.waiting, *load.stores.waiting)):
            return
        await asyncio.sleep(0.1)


async def _counted(place: Place, load: Load, began: float) -> tuple[list[Promise], dict[str, Any]]:
    decided = await _all_decided(place, [sent.name for sent in load.queries.sure])
    unsure = [sent for sent in load.queries.sent.values() if not sent.is_sure]
    unsure_decided = await _decisions(place, [sent.name for sent in unsure])
    on_bus = await _decided_on_bus(place)
    receipted = [sent.about for sent in load.stores.sent.values() if any(a[1] in _GOOD for a in sent.answers)]
    rows = await place.rows("SELECT id FROM memories WHERE id = ANY($1)", receipted)
    all_sent = load.queries.sent
    clocks = await place.rows(
        "SELECT count(*) AS n FROM recall_decisions WHERE created_at > now() + interval '5 s' "
        "OR created_at < now() - make_interval(secs => $1)",
        time.monotonic() - began + 60,
    )
    promises = [
        at_most("queries without a reply", len(load.queries.waiting), 0),
        at_most("queries with two replies", _doubled(all_sent.values()), 0),
        at_most("queries without a decision (SQL)", len(load.queries.sure) - len(decided), 0),
        at_most("queries with two decisions (SQL)", sum(n > 1 for n in decided.values()), 0),
        at_most("queries without a decision (bus)", sum(not on_bus[sent.name] for sent in load.queries.sure), 0),
        at_most("queries with two decisions (bus)", sum(n > 1 for n in on_bus.values()), 0),
        at_most("not sure to be sent: replies and decisions that differ", _differ(unsure, unsure_decided), 0),
        at_most("stores without a receipt", len(load.stores.waiting), 0),
        at_most("stores with two receipts", _doubled(load.stores.sent.values()), 0),
        at_most("receipted stores that are not in the record", len(set(receipted)) - len(rows), 0),
        at_most("answered `expired` before their ttl was over", sum(map(_falsely_expired, all_sent.values())), 0),
        at_most("decisions with a time that is not the bus's", clocks[0]["n"], 0),
        at_most("processes that outlive their parent", place.orphans, 0),
        at_most("answers to nobody", load.queries.unknown + load.stores.unknown, 0),
        *(at_most(f"left pending: {name}", n, 0) for name, n in (await _pending(place)).items()),
    ]
    took = [sent.took_s for sent in load.queries.sure if sent.took_s is not None]
    figures: dict[str, Any] = {
        "outcomes": _first_answers(all_sent.values()),
        "receipts": _first_answers(load.stores.sent.values()),
        "not sure to be sent": {"queries": len(unsure), "of them answered": sum(bool(s.answers) for s in unsure)},
        "seconds to a reply": {"p50": percentile(took, 0.5), "p99": percentile(took, 0.99)} if took else {},
        "seconds to normal, median and longest": _to_normal(load),
    }
    return promises, figures


def _first_answers(sent: Iterable[Sent]) -> dict[str, int]:
    return dict(Counter(outcome for one in sent for _, outcome in one.answers[:1]).most_common())


def _doubled(sent: Iterable[Sent]) -> int:
    return sum(len(one.answers) > 1 for one in sent)


def _falsely_expired(sent: Sent) -> bool:
    return any(
        outcome == "expired" and (sent.ttl_ms is None or (at - sent.at) * 1000 < sent.ttl_ms)
        for at, outcome in sent.answers
    )


def _differ(unsure: Iterable[Sent], decided: Counter[str]) -> int:
    return sum(len(sent.answers) != decided[sent.name] or len(sent.answers) > 1 for sent in unsure)


async def _all_decided(place: Place, names: list[str]) -> Counter[str]:
    """The decisions on each, once there is one on each; what there is when no further one comes."""
    decided, since = await _decisions(place, names), time.monotonic()
    while len(decided) < len(names) and time.monotonic() - since < _STALLED_S:
        await asyncio.sleep(0.5)
        if len(more := await _decisions(place, names)) != len(decided):
            decided, since = more, time.monotonic()
    return await _decisions(place, names)


async def _decisions(place: Place, names: list[str]) -> Counter[str]:
    rows = await place.rows(
        "SELECT corr_id, count(*) AS n FROM recall_decisions WHERE corr_id = ANY($1) GROUP BY 1", names
    )
    return Counter({row["corr_id"]: row["n"] for row in rows})


async def _decided_on_bus(place: Place) -> Counter[str]:
    found, start = Counter[str](), "-"
    async with connect(place.engines.redis_url) as redis:
        while rows := cast("list[Any]", await redis.xrange("recall.decision.v1", min=start, count=1000)):
            for entry_id, fields in rows:
                start = f"({entry_id.decode()}"
                _, _, rest = fields[b"envelope"].partition(b'"corr_id":')
                found[rest.lstrip()[1:33].decode()] += 1
    return found


async def _pending(place: Place) -> dict[str, int]:
    found: dict[str, int] = {}
    async with connect(place.engines.redis_url) as redis:
        for stream in (QUERIES, STORES):
            told = await redis.xpending(stream, "orion-recall")
            found[stream] = int(told["pending"]) + int(await redis.xlen(stream))
    return found


def _to_normal(load: Load) -> dict[str, str]:
    """By fault: from where all was in its place again to the last answer that was late or not good."""
    found: dict[str, list[float]] = defaultdict(list)
    after = [began for _, began, _ in load.faults[1:]] + [float("inf")]
    sent = [*load.queries.sure, *load.stores.sure]
    for (name, began, ended), next_began in zip(load.faults, after, strict=True):
        last = ended
        for one in sent:
            if not began - 30 < one.at < next_began or not one.answers:
                continue
            at, outcome = one.answers[0]
            if began <= at < next_began and (at - one.at > _NORMAL_S or outcome not in _GOOD):
                last = max(last, at)
        found[name].append(last - ended)
    return {
        name: f"{percentile(took, 0.5):.1f} and {max(took):.1f} ({len(took)})"
        for name, took in sorted(found.items())
    }


async def _flush(place: Place, asked: Caller, count: int, per_s: float) -> tuple[list[Promise], dict[str, Any]]:
    """FLUSHALL among queries: what came before may be lost, and is told; what comes after is as ever."""
    first, told_before = set(asked.sent), place.logged("was gone")
    counted_before = place.logged_number(_LOST)

    async def ask(number: int) -> None:
        await asked.send({"fragment": f"where does crate number {number % 40} stand?", "options": {}})

    await asyncio.gather(*(ask(number) for number in range(count)))
    before = [asked.sent[name] for name in set(asked.sent) - first]
    async with connect(place.engines.redis_url) as redis:
        await cast("Any", redis).flushall()
    flushed_at = time.monotonic()
    for number in range(count):
        await ask(number)
        await asyncio.sleep(1 / per_s)
    after = [sent for name, sent in asked.sent.items() if name not in first and sent not in before]
    left, since = len(after), time.monotonic()
    while left and time.monotonic() - since < _STALLED_S:
        await asyncio.sleep(0.1)
        if (now_left := sum(not sent.answers for sent in after)) != left:
            left, since = now_left, time.monotonic()
    await asyncio.sleep(_AFTERWARDS_S)
    await _all_decided(place, [sent.name for sent in after])
    decided = await _decisions(place, [sent.name for sent in (*before, *after)])
    late = [sent.answers[0][0] for sent in after if sent.took_s is not None and sent.took_s > _NORMAL_S]
    told = place.logged("was gone") - told_before
    promises = [
        at_most("after a flush: queries without a reply", sum(not sent.answers for sent in after), 0),
        at_most("around a flush: queries with two replies", _doubled((*before, *after)), 0),
        at_most("around a flush: queries with two decisions", sum(n > 1 for n in decided.values()), 0),
        at_most("after a flush: queries without a decision", sum(not decided[sent.name] for sent in after), 0),
        at_most("a flush that no worker tells of", int(not told), 0),
    ]
    return promises, {
        "sent before": len(before),
        "of them lost without a reply": sum(not sent.answers for sent in before),
        "of them without a decision": sum(not decided[sent.name] for sent in before),
        "told in workers' logs": told,
        "lost queries, as the workers count them": place.logged_number(_LOST) - counted_before,
        "seconds to normal": f"{max(late, default=flushed_at) - flushed_at:.1f}",
    }
