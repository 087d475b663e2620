"""A day of an agent for replays: recalls under three profiles, with stores, changes, deletes and merges between."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from executor import until

from orion_recall.client import RecallClient
from orion_recall.contracts import RecallReplyV1
from orion_recall.memory.names.merges import Merges, WantedMerge
from orion_recall.postgres.pool import Pool
from orion_recall.serving.service import Service

_DATA = Path(__file__).parents[1] / "data" / "everyday_other"
_PROFILES = ("reflect.v1", "assist.light.v1", "deep.graph.v1")
_AT_FIRST = 20
_STATE = """
SELECT (SELECT count(*) FROM memory_extractions WHERE due_at <= now() + interval '1 minute') AS extractions,
    (SELECT max(position) FROM outbox) AS head
"""
_MERGED = (("Sheila Crane", "Sheila"), ("Lionel Frost", "Lionel"), ("Tanner Street Theatre", "The Tanner"))


def lines(name: str) -> list[dict[str, Any]]:
    """The lines of a file of the data."""
    return [json.loads(line) for line in (_DATA / name).read_text("utf-8").splitlines()]


def memories(tenant: str) -> list[dict[str, Any]]:
    """The notes of some weeks, as memories to store."""
    return [
        {
            "id": one["memory_id"],
            "tenant": tenant,
            "text": one["text"],
            "speaker": one["speaker"],
            "session_id": one["session_id"],
            "occurred_at": one["turn_datetime"] + "Z",
        }
        for one in lines("memories.jsonl")
    ]


class Day:
    """The day of one tenant; everything in it is drawn by one seed."""

    def __init__(self, service: Service, client: RecallClient, pool: Pool, tenant: str) -> None:
        self._service, self._client, self._pool, self._tenant = service, client, pool, tenant
        self._draw = random.Random(17)
        self._coming = memories(tenant)
        self._stored: list[dict[str, Any]] = []
        self._merges = list(_MERGED)
        self._merged: list[int] = []
        self._questions = lines("queries.jsonl")

    async def live(self, recalls: int, *, hurried: bool = False) -> list[RecallReplyV1]:
        """So many recalls, with a change before every second one; their replies in order.

        A question comes when a change and all that follows from it are done; `hurried`: at once.
        """
        await self._store(_AT_FIRST)
        await self._settled()
        replies: list[RecallReplyV1] = []
        for number in range(recalls):
            if number % 2:
                await self._change(number)
                if not hurried:
                    await self._settled()
            replies.append(await self.recall(number))
        return replies

    async def _settled(self) -> None:
        """Returns when all changes are extracted, and index and graph have everything."""

        async def settled() -> bool:
            row: Any = await self._pool.fetchrow(_STATE)
            followed = all(part.position >= row["head"] for part in self._service.background.projections)
            return followed and not row["extractions"]

        await until(settled, "a record at rest, and copies that have all of it")

    async def recall(self, number: int) -> RecallReplyV1:
        """The recall of that number."""
        asked = self._questions[number % len(self._questions)]
        options: dict[str, Any] = {"tenant": self._tenant, "as_of": asked["query_date"] + "Z"}
        if number % 5 == 0:
            options |= {"k": 3, "min_score": 0.05}
        if number % 7 == 0:
            options |= {"exclude": [self._draw.choice(self._stored)["id"]], "max_tokens": 200}
        profile = _PROFILES[number % len(_PROFILES)]
        return await self._client.recall(asked["query"], profile=profile, options=options, timeout_s=60)

    async def _change(self, number: int) -> None:
        kind = ("store", "update", "store", "merge", "delete", "store", "update")[number // 2 % 7]
        if kind == "store" and self._coming:
            await self._store(2)
        elif kind == "merge":
            await self._merge()
        elif kind == "delete" and len(self._stored) > _AT_FIRST:
            gone = self._stored.pop(self._draw.randrange(len(self._stored)))
            await self._client.delete([gone["id"]], tenant=self._tenant)
        else:
            one = self._draw.choice(self._stored)
            text = f"{one['text']} Note {number}: {self._draw.choice(self._questions)['query']}"
            await self._client.update([{"id": one["id"], "text": text}], tenant=self._tenant)

    async def _store(self, count: int) -> None:
        new, self._coming = self._coming[:count], self._coming[count:]
        receipt = await self._client.store(new)
        assert receipt.stored == len(new), receipt
        self._stored += new

    async def _merge(self) -> None:
        merges = Merges(self._pool)
        if self._merged:
            await merges.undo(self._tenant, [self._merged.pop()])
        elif self._merges:
            alias, into = self._merges[0]
            done = await merges.merge(self._tenant, [WantedMerge(kind="entity", alias=alias, into=into)])
            self._merges.append(self._merges.pop(0))
            self._merged += [one.id for one in done.verdicts if one.id is not None and one.status == "merged"]
        await asyncio.sleep(0)
