"""Searches by words, and speakers, at many memories: in an index without vectors of meaning, which is quickly made.

    python -m tests.bench.scale.keywords [--sizes 10000,100000,1000000] [--keep FOLDER] [--json FILE]

A tenant of 1,000 memories and one of all others, with keywords of skewed frequencies, 50 speakers, sessions of
25 turns, and 300 entities; optimised as a worker does it. CPU ms a call, the median of some, in this process: with
the engine counting for each query how rare the words are, and as the index asks. Of both the ids must be the same.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as qe
from rich.console import Console

from orion_recall.cli.output import table
from orion_recall.index.embedded.document_frequencies import DocumentFrequencies
from orion_recall.index.embedded.points import entity_request, scope_filter, sparse_batch, speakers_request
from orion_recall.index.embedded.points import spoken_request as spoken
from orion_recall.index.embedded.shard import sparse_vectors
from orion_recall.index.embedded.writes import read_versions
from orion_recall.models.sparse import SparseTerms
from orion_recall.values import Scope
from tests.bench.command import engines_folder, finish, parser_of, say, sizes
from tests.bench.scale.memories import LARGE, SMALL, SMALL_SIZE

_USING = ("text", "context")
_AT_ONCE, _LISTS, _OWN = 1_000, 4_000, 100_000
_ASKED = SparseTerms(indices=(1, 7, 333, 5_000, 20_000, _OWN + 500), values=(1.0,) * 6)
_NAMES = SparseTerms(indices=(3, 7), values=(1.0, 1.0))
_NEW = 60_000


@dataclass(frozen=True, slots=True)
class OfSize:
    """CPU ms of each call, by what it is."""

    size: int
    cpu_ms: Mapping[str, float]


def fill(shard: qe.EdgeShard, size: int) -> None:
    """Writes the memories and entities, and optimises."""
    for name in ("tenant", "speaker", "session"):
        shard.update(qe.UpdateOperation.create_field_index(name, qe.PayloadSchemaType.Keyword))
    random = np.random.default_rng(1)
    lists = [np.unique(one).tolist() for one in ((random.random((_LISTS, 14)) ** 4) * _NEW).astype(int)]
    for start in range(0, size, _AT_ONCE):
        numbers = range(start, min(size, start + _AT_ONCE))
        shard.update(qe.UpdateOperation.upsert_points([_point(number, lists) for number in numbers]))
    names = [
        qe.Point(size + number, {"entity": _vector([number % 50, 100 + number])}, {"tenant": LARGE})
        for number in range(300)
    ]
    shard.update(qe.UpdateOperation.upsert_points(names))
    shard.optimize()
    shard.flush()


def _point(number: int, lists: Sequence[list[int]]) -> qe.Point:
    own, beside = lists[number % _LISTS], lists[number * 7 % _LISTS]
    payload: dict[str, Any] = {
        "tenant": LARGE if number >= SMALL_SIZE else SMALL,
        "speaker": f"s{number * 31 % 50}",
        "session": f"z{number // 25}",
        "version": 1,
    }
    vectors: dict[str, qe.NamedVector] = {
        "text": _vector([*own, _OWN + number]),
        "context": _vector(sorted({*own, *beside})),
    }
    return qe.Point(number, vectors, payload)


def _vector(terms: list[int]) -> qe.SparseVector:
    return qe.SparseVector(terms, [1.0] * len(terms))


def measure(shard: qe.EdgeShard) -> Mapping[str, float]:
    """CPU ms of each call, for both tenants."""
    found: dict[str, float] = {}
    random = np.random.default_rng(2)
    for tenant in (SMALL, LARGE):
        scope, kept = Scope(tenant=tenant), DocumentFrequencies()

        def words(frequencies: DocumentFrequencies | None, scope: Scope = scope) -> list[list[qe.ScoredPoint]]:
            weighted = frequencies and frequencies.weighted(shard, scope.tenant, _ASKED, _USING)
            return shard.query_batch(sparse_batch(_ASKED, scope, 100, _USING, weighted))

        def names(frequencies: DocumentFrequencies | None, tenant: str = tenant) -> list[qe.ScoredPoint]:
            weighted = frequencies and frequencies.weighted(shard, tenant, _NAMES, ("entity",))
            return shard.query(entity_request(_NAMES, tenant, 8, weighted))

        def new_terms(tenant: str = tenant, kept: DocumentFrequencies = kept) -> object:
            terms = sorted({int(one) for one in random.integers(0, _NEW, 2)})
            return kept.weighted(
                shard, tenant, SparseTerms(indices=tuple(terms), values=(1.0,) * len(terms)), _USING
            )

        calls: Mapping[str, Callable[[], object]] = {
            "keywords, the engine counts": lambda words=words: words(None),
            "keywords": lambda words=words, kept=kept: words(kept),
            "keywords, the tenant's first question": lambda words=words: words(DocumentFrequencies()),
            "two further words that are not known yet": new_terms,
            "names, the engine counts": lambda names=names: names(None),
            "names": lambda names=names, kept=kept: names(kept),
            "speakers, exact": lambda scope=scope: shard.facet(
                qe.FacetRequest("speaker", 1000, True, scope_filter(scope))
            ),
            "speakers": lambda scope=scope: shard.facet(speakers_request(scope)),
            "one speaker": lambda scope=scope: shard.scroll(spoken(scope, "s3")),
            "one speaker who is gone": lambda scope=scope: shard.scroll(spoken(scope, "nobody")),
        }
        found |= {f"{tenant} tenant: {name}": _cpu_ms(call) for name, call in calls.items()}
        for counted, ours in zip(words(None), words(kept), strict=True):
            if {one.id for one in counted} != {one.id for one in ours}:
                raise RuntimeError("other memories were found")
    return found | {"versions of all": _cpu_ms(lambda: _versions(shard), times=2)}


def _cpu_ms(call: Callable[[], object], times: int = 15) -> float:
    call()
    taken_s: list[float] = []
    for _ in range(times):
        began = time.process_time()
        call()
        taken_s.append(time.process_time() - began)
    return statistics.median(taken_s) * 1000


def _versions(shard: qe.EdgeShard) -> None:
    after: qe.PointId | None = None
    while True:
        _, after = read_versions(shard, after)
        if after is None:
            return


async def run(options: argparse.Namespace, folder: Path) -> list[OfSize]:
    """All sizes, one after the other."""
    found: list[OfSize] = []
    config = qe.EdgeConfig(sparse_vectors=sparse_vectors(), max_search_threads=1, wal_enabled=False)
    for size in options.sizes:
        place = folder / f"shard{size}"
        say(f"{size:,} memories")
        if place.exists():
            shard = qe.EdgeShard.load(str(place), config)
        else:
            place.mkdir(parents=True)
            shard = qe.EdgeShard.create(str(place), config)
            await asyncio.to_thread(fill, shard, size)
        found.append(OfSize(size, await asyncio.to_thread(measure, shard)))
        shard.close()
    return found


def print_report(result: Sequence[OfSize], out: Console) -> None:
    """A column for each size."""
    rows = [(name, *(f"{one.cpu_ms[name]:.3f}" for one in result)) for name in result[0].cpu_ms]
    out.print(table(("CPU ms a call", *(f"{one.size:,}" for one in result)), rows))


def main() -> None:
    """Read the arguments, run, report."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=sizes, default="10000,100000,1000000", help="memories, separated by commas")
    parser.add_argument("--keep", type=Path, default=None, metavar="FOLDER", help="where the indexes stay")
    options = parser.parse_args()
    with engines_folder() as folder:
        finish(
            run(options, options.keep or folder),
            show=print_report,
            as_json=lambda result: {"sizes": [asdict(one) for one in result]},
            file=options.json,
        )


if __name__ == "__main__":
    main()
