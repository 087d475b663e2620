"""Approximate against exact search: how much of the exact answer the embedded index finds, and in what time.

    python -m tests.bench.approximate [--size 100000] [--queries 200] [--json FILE]

Synthetic clustered vectors go into the embedded index as memories of two tenants: a small one of 1,000, and a large
one with all others. Exact is the cosine with every vector of the tenant, by numpy. The index is searched once as it
is written, which is exact too, and once optimised, which is approximate for large tenants. It is a measurement: the
exit code is 0 whatever comes out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from orion_recall.cli.output import table
from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.fill import changes
from orion_recall.index.embedded.reads import EdgeReads
from orion_recall.index.embedded.shard import LiveShard
from orion_recall.index.embedded.writer import EdgeWriter
from orion_recall.index.engine_threads import EngineThreads
from orion_recall.memory.record.compose import compose
from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import Tokens
from orion_recall.text.normal import memory_key
from orion_recall.values import Memory, Scope
from tests.bench.command import engines_folder, finish, parser_of, say

LARGE, SMALL = "large", "small"
_DIMENSION, _CLUSTER, _SPREAD = 384, 100, 1.0
_SMALL_SIZE, _AT_ONCE, _DEPTHS = 1_000, 1_000, (10, 100)
Array = npt.NDArray[np.float32]


class ClusteredVectors:
    """An embedder that gives the memory number N its synthetic vector: its text ends with N.

    A cluster has about 100 vectors: a common centre and noise of the same length, all at unit length. Each has one
    token, so that the engine is configured as it is for the shipped model.
    """

    name, weights_sha256, dimension = "clustered", "0" * 64, _DIMENSION
    token_space, token_width = "one", 8

    def __init__(self, size: int, queries: int, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        centres = _units(random.standard_normal((max(size // _CLUSTER, 1), _DIMENSION)))

        def drawn(count: int) -> Array:
            noise = _units(random.standard_normal((count, _DIMENSION)))
            return _units(centres[random.integers(len(centres), size=count)] + _SPREAD * noise)

        self.documents, self.questions = drawn(size), drawn(queries)

    async def embed_query(self, text: str) -> Vector:
        """The vector of the question number N."""
        return self.questions[_number(text)]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The vectors of the memories."""
        return self.documents[[_number(text) for text in texts]]

    async def query_tokens(self, text: str) -> Tokens:
        """One token, whatever the text."""
        return np.ones((1, self.token_width), dtype=np.float32)

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        """The vectors, and one token for each text."""
        return await self.embed_documents(texts), [await self.query_tokens(text) for text in texts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One state of the index, and one tenant: the mean share of the exact first k that was found; ms a search."""

    index: str
    tenant: str
    memories: int
    recall: dict[int, float]
    p50_ms: float
    p95_ms: float


async def compare(size: int, queries: int, folder: Path) -> list[Measured]:
    """Fill an index, and search it as it is written and optimised, as either tenant."""
    embedder, sparse = ClusteredVectors(size, queries), SparseEncoder()
    small = min(_SMALL_SIZE, size // 2)
    tenants = {LARGE: range(small, size), SMALL: range(small)}
    live = LiveShard(folder, embedder, sparse)
    live.load()
    writer = EngineThreads("the index", 1, name="index-write")
    writes = EdgeWriter(live, writer, embedder, sparse)
    steps = changes([_memory(number, LARGE if number >= small else SMALL) for number in range(size)])
    for start in range(0, size, _AT_ONCE):
        await writes.apply(steps[start : start + _AT_ONCE])
    await writes.save()
    say(f"{size:,} memories are written")
    reads = EdgeReads(live, embedder, sparse)
    found = [await _measured("as written", name, of, embedder, reads) for name, of in tenants.items()]
    began = time.perf_counter()
    await writer.run(lambda: live.checked().optimize())
    say(f"optimised in {time.perf_counter() - began:.0f} s")
    found += [await _measured("optimised", name, of, embedder, reads) for name, of in tenants.items()]
    await writes.close()
    await writer.run(live.close)
    await writer.close()
    return found


async def _measured(
    index: str, tenant: str, numbers: range, embedder: ClusteredVectors, reads: EdgeReads
) -> Measured:
    exact = _exact(embedder.documents[numbers.start : numbers.stop], embedder.questions, max(_DEPTHS))
    scope, deepest = Scope(tenant=tenant), max(_DEPTHS)
    shares: dict[int, list[float]] = {depth: [] for depth in _DEPTHS}
    took: list[float] = []
    for question, best in zip(embedder.questions, exact, strict=True):
        began = time.perf_counter()
        hits = await reads.search_dense(question.tolist(), scope, deepest, -1.0)
        took.append((time.perf_counter() - began) * 1000)
        keys = [key for key, _ in hits]
        wanted = [memory_key(tenant, f"m-{numbers.start + place}") for place in best]
        for depth in _DEPTHS:
            shares[depth].append(len({*keys[:depth]} & {*wanted[:depth]}) / len(wanted[:depth]))
    return Measured(
        index=index,
        tenant=tenant,
        memories=len(numbers),
        recall={depth: float(np.mean(values)) for depth, values in shares.items()},
        p50_ms=float(np.percentile(took, 50)),
        p95_ms=float(np.percentile(took, 95)),
    )


def _exact(documents: Array, questions: Array, depth: int) -> list[list[int]]:
    """The places of the nearest documents of every question, best first."""
    similar = questions @ documents.T
    best: list[list[int]] = np.argsort(-similar, axis=1, kind="stable")[:, :depth].tolist()
    return best


def _memory(number: int, tenant: str) -> Memory:
    return compose(MemoryV1(id=f"m-{number}", text=f"note {number}"), tenant)


def _units(values: npt.NDArray[Any]) -> Array:
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


def _number(text: str) -> int:
    return int(text.rpartition(" ")[2])


def show(found: list[Measured], out: Console) -> None:
    """A row for each state of the index and tenant."""
    columns = ("index", "tenant", "memories", *(f"recall@{depth}" for depth in _DEPTHS), "P50 ms", "P95 ms")
    rows = [
        (one.index, one.tenant, f"{one.memories:,}", *(f"{one.recall[depth]:.4f}" for depth in _DEPTHS),
         f"{one.p50_ms:.2f}", f"{one.p95_ms:.2f}")
        for one in found
    ]  # fmt: skip
    out.print(table(columns, rows))


def main() -> None:
    """Read the options, measure, print."""
    parser = parser_of(__doc__)
    parser.add_argument("--size", type=int, default=100_000, help="memories in all")
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    with engines_folder() as folder:
        finish(
            compare(options.size, options.queries, folder / "index"),
            show=show,
            as_json=lambda found: {"measured": [asdict(one) for one in found]},
            file=options.json,
        )


if __name__ == "__main__":
    main()
