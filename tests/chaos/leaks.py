"""Questions that pry, over tenants, users and sessions: no answer names what is not in its scope.

Each memory has names in every field that are in no other memory (tests/chaos/canaries.py). They are looked for in
the bytes of every reply, traces and errors included, and by SQL in every decision. Some tenants have a store of
their own that fails with their names in its error, and for a while Postgres is away. At last memories of others
come and go, and what one tenant is answered stays the same to the last digit.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from tests.bench.command import say
from tests.chaos.caller import Caller, Sent, caller_on
from tests.chaos.canaries import Asked, World, world
from tests.chaos.place import QUERIES, Place, fill, open_place
from tests.chaos.trial import Trial, at_most
from tests.stand_ins.servers import Answer, answering

_DELETES = "memory.delete.v1"
_ROWS = 500
_SAMPLE = "tenant-0"
_KEPT_LEAKS = 20


@dataclass(slots=True)
class Found:
    """What was told that may not be: how often, and the first of them; `looked` are answers that were read."""

    told: World
    looked: int = 0
    leaked: int = 0
    first: list[str] = field(default_factory=list[str])

    def look(self, where: str, told: str, asked: Asked) -> None:
        self.looked += 1
        for canary in self.told.leaked(told, asked):
            self.leaked += 1
            if len(self.first) < _KEPT_LEAKS:
                place = told.casefold().find(canary)
                self.first.append(
                    f"{where}: {canary} of {self.told.owners[canary]} in …{told[max(0, place - 80) : place + 40]}… "
                    f"of {json.dumps(asked.payload)} for {asked.allowed}"
                )


async def run(
    *,
    questions: int,
    tenants: int,
    in_flight: int,
    seed: int,
    users: int = 3,
    sessions: int = 3,
    memories: int = 4,
    most_minutes: float = 600.0,
) -> Trial:
    """The trial; asking ends after so many minutes at the latest."""
    began, now = time.monotonic(), time.time()
    told = world(tenants=tenants, users=users, sessions=sessions, memories=memories, seed=seed, now=now)
    found = Found(told)
    async with _failing_stores(told) as mappings, open_place(ORION_TENANTS="*", ORION_DEADLINE_MS="60000") as place:
        file = place.folder / "mappings.yaml"
        file.write_text(json.dumps(mappings), "utf-8")
        patient = str(place.folder / "patient-profiles")
        await place.start("a", ORION_PROFILES_DIR=patient, ORION_MAPPINGS=str(file))
        await fill(place, told.memories)

        def look(sent: Sent, raw: bytes) -> None:
            found.look("reply", raw.decode(), sent.about)

        async with caller_on(place.engines.redis_url, QUERIES, look) as caller:
            await _ask(place, caller, told, questions, in_flight, began + most_minutes * 60)
            lost = len(caller.waiting)
            sent = list(caller.sent.values())
        say("replies are read; now the decisions")
        decided = await _read_decisions(place, found, sent)
        changed, compared = await _compare_scores(place, told, now)
    outcomes = Counter(outcome for one in sent for _, outcome in one.answers[:1])
    return Trial(
        name="leaks",
        size=f"{len(sent):,} questions, {tenants} tenants, {users} users, {sessions} sessions, "
        f"{len(told.memories):,} memories",
        promises=[
            at_most("names of others in replies and decisions", found.leaked, 0),
            at_most("questions without a reply", lost, 0),
            at_most("questions without a decision", len(sent) - decided, 0),
            at_most("answers that others' memories change", changed, 0),
        ],
        figures={
            "outcomes": dict(outcomes.most_common()),
            "replies and decisions that were searched": found.looked,
            "answers compared before and after others' memories": compared,
            **({"leaked": found.first} if found.first else {}),
        },
        seconds=time.monotonic() - began,
    )


@asynccontextmanager
async def _failing_stores(told: World) -> AsyncGenerator[Mapping[str, Any]]:
    """Mappings of two tenants to stores that answer with an error, in which their names are."""
    mine = {tenant: [told.store_name(tenant) for _ in range(3)] for tenant in _with(told)}
    names = " ".join(told.names[:50])  # what a server says in an error may be anybody's
    body = json.dumps({"error": f"no such graph: {names}"})
    async with answering(lambda _: Answer(status=500, body=body.encode())) as server:
        yield {
            "sparql": [
                {"name": f"store-{names[0]}", "url": f"{server.url}/{names[1]}/query", "tenant": tenant}
                | {"label": "http://example.org/label", "text": f"http://example.org/{names[2]}"}
                for tenant, names in mine.items()
            ]
        }


def _with(told: World) -> list[str]:
    """Tenants with a store of their own: not the one whose scores are compared."""
    return sorted({place.tenant for place in told.places} - {_SAMPLE})[:2]


async def _ask(place: Place, caller: Caller, told: World, questions: int, in_flight: int, until: float) -> None:
    """Ask; while the eighth of ten parts is asked, Postgres is away."""
    away, back = questions * 7 // 10, questions * 8 // 10
    for number in range(questions):
        if time.monotonic() > until:
            break
        if number == away:
            await place.engines.postgres.stop()
        elif number == back:
            await place.engines.postgres.start()
        if number % 1000 == 0 and number:
            say(f"{number:,} questions are asked")
        while len(caller.waiting) >= in_flight:
            await asyncio.sleep(0.005)
        asked = told.question()
        await caller.send(asked.payload, about=asked)
    await place.engines.postgres.start()
    await caller.all_answered(stalled_s=60)


async def _read_decisions(place: Place, found: Found, sent: Sequence[Sent]) -> int:
    """How many decisions there are; each is searched."""
    by_name = {one.name: one for one in sent}
    names = list(by_name)
    statement = "SELECT corr_id, to_jsonb(d)::text AS told FROM recall_decisions d WHERE corr_id = ANY($1)"
    count = 0
    for start in range(0, len(names), _ROWS):
        some = names[start : start + _ROWS]
        rows, tries = list[Any](), 0
        while len(rows) < len(some) and tries < 200:
            await asyncio.sleep(0.3 * (tries > 0))
            rows, tries = await place.rows(statement, some), tries + 1
        count += len(rows)
        for row in rows:
            found.look("decision", row["told"], by_name[row["corr_id"]].about)
    return count


async def _compare_scores(place: Place, told: World, now: float) -> tuple[int, int]:
    """How many of one tenant's answers others' memories have changed, and how many there were."""
    texts = [told.question().payload["fragment"] for _ in range(20)]
    before = await _answers(place, texts, now)
    others = [owner for owner in told.places if owner.tenant != _SAMPLE]
    new = [told.add(told.rng.choice(others), now) for _ in range(len(told.memories) // 4 + 20)]
    for memory in new:  # the words that the tenant asks for become common elsewhere
        memory["text"] += " " + told.rng.choice(texts)
    await fill(place, new)
    after = await _answers(place, texts, now)
    async with caller_on(place.engines.redis_url, _DELETES) as caller:
        for memory in new[::2]:
            await caller.send({"tenant": memory["tenant"], "ids": [memory["id"]]})
        await caller.all_answered(stalled_s=60)
    await place.copies_caught_up()
    at_last = await _answers(place, texts, now)
    return sum(one != other for one, other in zip(before * 2, after + at_last, strict=True)), 2 * len(before)


async def _answers(place: Place, texts: Sequence[str], now: float) -> list[Any]:
    found: dict[str, Any] = {}

    def keep(sent: Sent, raw: bytes) -> None:
        found[sent.about] = _timeless(json.loads(raw)["payload"]["bundle"])

    async with caller_on(place.engines.redis_url, QUERIES, keep) as caller:
        for text in dict.fromkeys(texts):
            options = {"tenant": _SAMPLE, "as_of": now, "include": {"trace": True}}
            outcome = "degraded"
            while outcome == "degraded":  # Postgres was away a moment ago
                sent = await caller.send({"fragment": text, "options": options}, about=text)
                assert await caller.all_answered(stalled_s=120), "there is no answer"
                outcome = sent.answers[0][1]
                await asyncio.sleep(0.5 * (outcome == "degraded"))
    return [found[text] for text in texts]


def _timeless(told: Any) -> Any:
    """Without times that it took and ids that are new each time."""
    if isinstance(told, dict):
        parts = cast("Mapping[str, Any]", told)
        return {
            name: _timeless(part)
            for name, part in parts.items()
            if not name.endswith("ms") and name not in ("decision_id", "created_at")
        }
    if isinstance(told, list):
        some = cast("Sequence[Any]", told)
        return [_timeless(part) for part in some]
    return told
