"""A process that writes the embedded index is killed, again and again: points and token vectors agree by row."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.record.compose import compose
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Scope
from tests.samples.source_samples import TokenEmbedder
from tests.stand_ins.forked import forked

pytestmark = pytest.mark.slow

KILLED, AT_ONCE, TENANT = 40, 8, "acme"
WORDS = "crane harbour rope anchor gull tide pump valve ledger ticket stove garden bread river stone lamp".split()
QUESTION = "the crane in the harbour, and the ledger of the pump"


def step(position: int) -> Change:
    """The same in every process: forty memories, changed and deleted over and over."""
    drawn = random.Random(position)
    told = {
        "id": f"m{drawn.randrange(40)}",
        "text": f"{' '.join(drawn.choices(WORDS, k=drawn.randrange(1, 30)))} {position}",
        "speaker": drawn.choice(["Ana", "Bo", None]),
        "session_id": drawn.choice(["one", "two", None]),
    }
    memory = compose(MemoryV1.model_validate({name: value for name, value in told.items() if value}), TENANT)
    memory = replace(memory, version=position, deleted_at=5.0 if drawn.random() < 0.2 else None)
    return Change(position=position, memory=memory)


def opened_in(folder: Path) -> EdgeIndex:
    return EdgeIndex(folder, TokenEmbedder(), SparseEncoder())


async def written(folder: Path) -> None:
    """Goes on where the index is; saves, optimises and writes it anew now and then. Says where it is going."""
    index, drawn = opened_in(folder), random.Random(os.getpid())
    await index.open()
    while True:
        first = index.position + 1
        print(first + AT_ONCE, flush=True)
        await index.apply([step(position) for position in range(first, first + AT_ONCE)])
        if drawn.random() < 0.3:
            await index.save()
        if drawn.random() < 0.05:
            await index.optimise()


async def answers(index: EdgeIndex) -> dict[str, object]:
    """Every row of every column that the index has."""
    keys, scope, embedder = (
        [memory_key(TENANT, f"m{number}") for number in range(40)],
        Scope(tenant=TENANT),
        TokenEmbedder(),
    )
    near = await index.max_sim(await embedder.query_tokens(QUESTION), keys)
    dense = await index.search_dense((await embedder.embed_query(QUESTION)).tolist(), scope, 100, -1.0)
    words = await index.search_sparse(SparseEncoder().encode_query(QUESTION), scope, 100)
    return {
        "rows": {key: view._replace(beside=()) for key, view in (await index.fetch(keys)).items()},
        "tokens": {key: round(score, 5) for key, score in near.items()},
        "dense": sorted((hit[0], round(hit[1], 5)) for hit in dense),
        "words": sorted(key for part in words for key, _ in part),
        "speakers": await index.speakers(scope),
    }


async def test_an_index_whose_writer_is_killed_has_after_the_rest_of_the_outbox_what_a_new_one_has(folder: Path):
    drawn = random.Random(3)
    last: dict[str, Change] = {}
    known = 0
    for number in range(KILLED):
        out, err = folder / f"out-{number}", folder / f"err-{number}"
        child = forked(__name__, [str(folder / "index")], environment=dict(os.environ), out=out, err=err)
        until = time.monotonic() + 60
        while not out.exists() or not out.read_text("utf-8").endswith("\n"):
            assert child.poll() is None and time.monotonic() < until, err.read_text("utf-8")
            await asyncio.sleep(0.005)
        await asyncio.sleep(drawn.random() * 0.25)
        assert child.poll() is None, err.read_text("utf-8")
        child.kill()
        child.wait(30)
        going = int(out.read_text("utf-8").split()[-1])
        index = opened_in(folder / "index")
        await index.open()
        try:
            left = index.position
            assert known <= left < going, "what was saved stays, and it is not ahead of what was written"
            await index.apply([step(position) for position in range(left + 1, going + 1)])
            last |= {change.memory.id: change for change in map(step, range(known + 1, going + 1))}
            known = going
            await index.save()
            found = await answers(index)
        finally:
            await index.close()
        fresh = opened_in(folder / f"fresh-{number}")
        await fresh.open()
        try:
            await fresh.apply(sorted(last.values(), key=lambda change: change.position))
            assert found == await answers(fresh)
        finally:
            await fresh.close()


def main() -> None:
    asyncio.run(written(Path(sys.argv[1])))
