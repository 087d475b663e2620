"""The rank of an answer that only an external store holds, beside thousands of own memories.

    python -m tests.bench.mapped [--sizes 10000] [--profiles reflect.v1,deep.graph.v1] [--json FILE]

A wiki, a table of tickets and a collection of notes, each with the only answer to ten questions (`shown`) and to
ten more with which ranking was not tuned (`held_out`). Own memories are synthetic, filled directly and kept under
/tmp for the next run. For each profile and set: how many answers came first or second, and those that did not.

It is a measurement, not a test: the exit code is 0 whatever comes out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from orion_recall.contracts import RecallQueryV1
from orion_recall.models.opening import open_embedder
from orion_recall.profile import Profile
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.pipeline import recall
from orion_recall.recall.types import Sources
from orion_recall.serving.backends import open_sources
from tests.bench.command import finish, parser_of, say, sizes
from tests.bench.fill_child import MODEL, NOW
from tests.bench.filled_stores import FilledStores, open_filled
from tests.stand_ins.oxigraph import oxigraph
from tests.stand_ins.qdrant_process import qdrant_stand_in
from tests.stand_ins.team_stores import SETS, Judged, judged, make_stores

FIRST_OR_SECOND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One set under one profile: the place of each answer in the bundle by question, None when it is not in it."""

    size: int
    profile: str
    judged: str
    places: dict[str, int | None]
    ms: float

    @property
    def found(self) -> int:
        """How many answers came first or second."""
        return sum(place is not None and place <= FIRST_OR_SECOND for place in self.places.values())


async def measure(options: argparse.Namespace) -> Sequence[Cell]:
    """One size after another."""
    cells: list[Cell] = []
    for size in options.sizes:
        say(f"{size:,} memories: stores")
        async with open_filled(size, MODEL, fresh=False) as filled:
            cells += await _measured(filled, options.profiles.split(","))
    return cells


async def _measured(filled: FilledStores, names: Sequence[str]) -> Sequence[Cell]:
    assert filled.settings.dsn is not None
    profiles = loaded_profiles(None)
    with qdrant_stand_in() as notes, TemporaryDirectory() as folder:
        async with oxigraph() as wiki, open_embedder(filled.settings) as embedder:
            told = await make_stores(
                qdrant_url=notes.url, wiki=wiki, dsn=filled.settings.dsn, embedder=embedder, now=NOW
            )
            mappings = Path(folder) / "mappings.yaml"
            mappings.write_text(told, "utf-8")
            async with open_sources(filled.settings.changed(mappings=mappings)) as opened:
                assert not opened.broken, opened.broken
                return [
                    await asked(judged(which), profiles[name].profile, opened.sources, size=filled.size, told=which)
                    for name in names
                    for which in SETS
                ]


async def asked(questions: Sequence[Judged], profile: Profile, sources: Sources, *, size: int, told: str) -> Cell:
    """Every question once; `ms` is the median of the recalls."""
    places: dict[str, int | None] = {}
    spent: list[float] = []
    for one in questions:
        began = time.perf_counter()
        found = await recall(RecallQueryV1(fragment=one.question), profile, sources, now=NOW)
        spent.append((time.perf_counter() - began) * 1000)
        assert found.outcome in ("ok", "empty"), (
            one.question,
            found.outcome,
            [report.error for report in found.reports],
        )
        ids = [item.scored.memory.id for item in found.selection.items]
        places[one.question] = ids.index(one.answer) + 1 if one.answer in ids else None
    return Cell(size=size, profile=profile.profile, judged=told, places=places, ms=round(median(spent), 1))


def _show(cells: Sequence[Cell], console: Console) -> None:
    for cell in cells:
        console.print(
            f"{cell.size:,} own memories, {cell.profile}, {cell.judged}: "
            f"{cell.found} of {len(cell.places)} first or second; median {cell.ms:.0f} ms"
        )
        for question, place in cell.places.items():
            if place is None or place > FIRST_OR_SECOND:
                console.print(f"    place {place or '-'}: {question}")


def _as_json(cells: Sequence[Cell]) -> dict[str, Any]:
    return {"cells": [{**asdict(cell), "found": cell.found} for cell in cells]}


def main() -> None:
    """Measure and show."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=sizes, default=[10_000], help="numbers of own memories (default: 10000)")
    parser.add_argument("--profiles", default="reflect.v1,deep.graph.v1", help="names, separated by commas")
    options = parser.parse_args()
    finish(measure(options), show=_show, as_json=_as_json, file=options.json)


if __name__ == "__main__":
    main()
