"""Approximate against exact search: how much of the exact answer the embedded index finds, and in what time.

    python -m tests.bench.approximate [--size 100000] [--tenants 1000,...] [--queries 200] [--json FILE]

Vectors go into the embedded index as memories of tenants: those of `--tenants`, by their numbers of memories, and
one with all others. They are synthetic and clustered. The index is optimised, and each tenant searched as a recall
searches; exact is the cosine with every vector of the tenant, by numpy.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from orion_recall.cli.output import Table
from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.trials import changes
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.record.compose import compose
from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import memory_key
from orion_recall.values import Scope
from tests.bench.command import at_least, engines_folder, finish, parser_of, say, sizes
from tests.bench.measure import percentile

_AT_ONCE, _DEPTHS, _CLUSTER = 1_000, (10, 100), 100


class GivenVectors:
    """An embedder that gives the memory number N its vector: its text ends with N. So does a question's."""

    name, weights_sha256 = "given", "0" * 64

    def __init__(self, documents: Vectors, questions: Vectors) -> None:
        self.documents, self.questions = documents, questions
        self.dimension = int(documents.shape[1])

    async def embed_query(self, text: str) -> Vector:
        return self.questions[_number(text)]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self.documents[[_number(text) for text in texts]]


def clustered(
    size: int, questions: int, *, dimension: int = 384, rank: int | None = None, spread: float = 1.0, seed: int = 7
) -> GivenVectors:
    """Drawn unit vectors in clusters of about 100: a common centre and noise of `spread` times its length.

    With a `rank` all lie in a space of so few dimensions, turned into the others.
    """
    random = np.random.default_rng(seed)
    inner = rank or dimension
    turned = random.standard_normal((rank, dimension)) if rank else np.eye(dimension)
    centres = _units(random.standard_normal((max(size // _CLUSTER, 1), inner)))

    def drawn(count: int) -> Vectors:
        noise = _units(random.standard_normal((count, inner)))
        return _units((centres[random.integers(len(centres), size=count)] + spread * noise) @ turned)

    return GivenVectors(drawn(size), drawn(questions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One tenant: the mean share of the exact first k that was found, and milliseconds of a search."""

    memories: int
    recall: dict[int, float]
    p50_ms: float
    p95_ms: float
    cpu_p50_ms: float


async def compare(vectors: GivenVectors, folder: Path, of_tenants: Sequence[int]) -> list[Measured]:
    """Fill and optimise an index, and search it as every tenant."""
    size = len(vectors.documents)
    tenants = [range(start, end) for start, end in pairwise([0, *accumulate(of_tenants), size])]
    index = EdgeIndex(folder, vectors, SparseEncoder())
    await index.open()
    steps = changes(
        [
            compose(MemoryV1(id=f"m-{number}", text=f"note {number}"), str(tenant))
            for tenant, numbers in enumerate(tenants)
            for number in numbers
        ]
    )
    for start in range(0, size, _AT_ONCE):
        await index.apply(steps[start : start + _AT_ONCE])
    await index.save()
    say(f"{size:,} memories are written")
    await index.optimise()
    say("the index is optimised")
    found = [await _measured(index, vectors, numbers, str(tenant)) for tenant, numbers in enumerate(tenants)]
    await index.close()
    return found


async def _measured(index: EdgeIndex, vectors: GivenVectors, numbers: range, tenant: str) -> Measured:
    documents, took_ms, cpu_ms = vectors.documents[numbers.start : numbers.stop], list[float](), list[float]()
    shares = {depth: list[float]() for depth in _DEPTHS}
    for question in vectors.questions:  # the cosines of all at once would take a hundred megabytes
        best = np.argsort(-(documents @ question), kind="stable")[: max(_DEPTHS)]
        wanted = [memory_key(tenant, f"m-{numbers[place]}") for place in best]
        began, cpu_began = time.perf_counter(), time.process_time()
        hits = await index.search_dense(question.tolist(), Scope(tenant=tenant), max(_DEPTHS), -1.0)
        cpu_ms.append((time.process_time() - cpu_began) * 1000)
        took_ms.append((time.perf_counter() - began) * 1000)
        keys = [key for key, _ in hits]
        for depth, each in shares.items():
            each.append(len({*keys[:depth]} & {*wanted[:depth]}) / len(wanted[:depth]))
    return Measured(
        memories=len(numbers),
        recall={depth: float(np.mean(values)) for depth, values in shares.items()},
        p50_ms=percentile(took_ms, 0.5),
        p95_ms=percentile(took_ms, 0.95),
        cpu_p50_ms=percentile(cpu_ms, 0.5),
    )


def _units(values: npt.NDArray[Any]) -> Vectors:
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


def _number(text: str) -> int:
    return int(text.rpartition(" ")[2])


def show(found: list[Measured], out: Console) -> None:
    """A row for each tenant."""
    columns = ("memories", *(f"recall@{depth}" for depth in _DEPTHS), "P50 ms", "P95 ms", "CPU ms")
    rows = [
        (f"{one.memories:,}", *(f"{share:.4f}" for share in one.recall.values()),
         f"{one.p50_ms:.2f}", f"{one.p95_ms:.2f}", f"{one.cpu_p50_ms:.2f}")
        for one in found
    ]  # fmt: skip
    out.print(Table(columns, rows))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--size", type=at_least(100), default=100_000, help="memories in all, at most")
    parser.add_argument("--tenants", type=sizes, default=[1_000], metavar="N,...", help="memories of each, but one")
    parser.add_argument("--queries", type=at_least(1), default=200)
    options = parser.parse_args()
    with engines_folder() as folder:
        finish(
            compare(clustered(options.size, options.queries), folder / "index", options.tenants),
            show=show,
            as_json=lambda found: {"measured": [asdict(one) for one in found]},
            file=options.json,
        )


if __name__ == "__main__":
    main()
