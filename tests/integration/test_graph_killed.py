"""A process that writes the embedded graph is killed, again and again: nothing is skipped and nothing doubled."""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.memory.record.compose import compose
from orion_recall.values import Change, Memory, Statement

pytestmark = pytest.mark.slow

STEPS, AT_ONCE = 1200, 8
AHEAD = 20  # batches after the one at which it is killed: however late that is, it never comes to the end
NAMES = ("Ana", "ANA", "Bo", "Fjord Labs", "Aurora")


def outbox() -> list[Change]:
    """The same steps in every process: thirty memories, changed and deleted over and over."""
    drawn = random.Random(4)
    base = compose(MemoryV1.model_validate({"id": "m", "text": "words"}), "acme")

    def told() -> Memory:
        relations = ("knows", "works at")
        edges = [
            Statement(subject=drawn.choice(NAMES), relation=drawn.choice(relations), object=drawn.choice(NAMES))
            for _ in range(drawn.randrange(3))
        ]
        return replace(
            base, id=f"m{drawn.randrange(30)}", statements=tuple(edges), entities=(drawn.choice(NAMES),),
            occurred_at=float(drawn.randrange(9)), deleted_at=drawn.choice([None, None, 5.0]),
        )  # fmt: skip

    return [Change(position=place + 1, memory=told()) for place in range(STEPS)]


async def written(folder: Path) -> None:
    """Goes on where the graph is, a batch for each line that it is given; says after each where it has come."""
    graph, steps = RdfGraph(folder), outbox()
    await graph.open()
    while sys.stdin.readline():
        await graph.apply(steps[graph.position : graph.position + AT_ONCE])
        print(graph.position, flush=True)
    await graph.close()


async def everything(folder: Path, steps: list[Change]) -> set[tuple[str, ...]]:
    graph = RdfGraph(folder)
    await graph.open()
    if steps:
        await graph.apply(steps)
    rows = await graph.select("SELECT ?g ?s ?p ?o WHERE { GRAPH ?g { ?s ?p ?o } }")
    await graph.close()
    return {tuple(row[name] for name in "gspo") for row in rows}


async def test_a_graph_whose_writer_is_killed_is_the_one_that_is_built_fresh(folder: Path):
    reached = 0
    for batches in (2, 11, 40):
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            folder / "graph",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b"\n" * (batches + AHEAD))
        for _ in range(batches):
            reached = int(await child.stdout.readline())
        child.kill()
        await child.wait()
    graph = RdfGraph(folder / "graph")
    await graph.open()
    left = graph.position
    await graph.close()
    assert reached <= left < STEPS, "it was killed on its way, and lost nothing that it had claimed"
    steps = outbox()
    last = {change.memory.id: change for change in steps}
    fresh = await everything(folder / "fresh", list(last.values()))
    assert await everything(folder / "graph", steps[left:]) == fresh


if __name__ == "__main__":
    asyncio.run(written(Path(sys.argv[1])))
