"""Approximate against exact search: how much of the exact answer the embedded index finds, and in what time.

    python -m tests.bench.approximate [--size 100000] [--tenants 1000,...] [--queries 200] [--json FILE]

Vectors go into the embedded index as memories of tenants: those of `--tenants`, by their numbers of memories, and
one with all others. Each is searched whole, and for memories of one kind, which every third one has. The vectors
are synthetic and clustered.

Exact is the cosine with every vector of the tenant, by numpy. The index is searched once as it is written, which is
exact too, and once optimised, which is approximate for large tenants: there each question is asked twice in turn,
as a recall asks it, and as the engine searches without parameters. It is a measurement: the exit code is 0 whatever
comes out.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import qdrant_edge as qe
from rich.console import Console

from orion_recall.cli.output import table
from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.fill import changes
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.embedded.points import edge_filter
from orion_recall.index.requests import scope_filter
from orion_recall.memory.record.compose import compose
from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import Tokens
from orion_recall.text.normal import memory_key
from orion_recall.values import Memory, Scope
from tests.bench.command import engines_folder, finish, parser_of, say, sizes

AS_WRITTEN, OPTIMISED, UNTOLD = "as written", "optimised", "optimised, without parameters"
_AT_ONCE, _DEPTHS, _CLUSTER = 1_000, (10, 100), 100
# A search for a part of a tenant asks for the first kind.
_KINDS = ("fact", "event", "preference")

Array = npt.NDArray[np.float32]
Search = Callable[[Vector], Awaitable[Sequence[int]]]


class GivenVectors:
    """An embedder that gives the memory number N its vector: its text ends with N. So does a question's.

    Each memory has one token, so that the engine is configured as it is for the shipped model.
    """

    name, weights_sha256 = "given", "0" * 64
    token_space, token_width = "one", 8

    def __init__(self, documents: Array, questions: Array) -> None:
        self.documents, self.questions = documents, questions
        self.dimension = int(documents.shape[1])

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

    def drawn(count: int) -> Array:
        noise = _units(random.standard_normal((count, inner)))
        return _units((centres[random.integers(len(centres), size=count)] + spread * noise) @ turned)

    return GivenVectors(drawn(size), drawn(questions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What is searched: a tenant, or the memories of one kind of it, and the numbers of the memories there."""

    tenant: str
    of_kind: bool
    numbers: Sequence[int]

    @property
    def scope(self) -> Scope:
        """The scope of the searches."""
        return Scope(tenant=self.tenant, kinds=_KINDS[:1] if self.of_kind else ())

    @property
    def label(self) -> str:
        """As the table names it."""
        return f"{self.tenant}, one kind" if self.of_kind else self.tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A state of the index, and what was searched: the mean share of the exact first k that was found, and ms."""

    index: str
    tenant: str
    memories: int
    recall: dict[int, float]
    p50_ms: float
    p95_ms: float
    cpu_p50_ms: float


@dataclass(slots=True)
class _Seen:
    """The searches of one way to ask: shares that were found by depth, and milliseconds."""

    shares: dict[int, list[float]] = field(default_factory=lambda: {depth: [] for depth in _DEPTHS})
    took_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])

    async def ask(self, search: Search, question: Vector, wanted: Sequence[int]) -> None:
        """Searches, and compares with the exact answer."""
        began, cpu_began = time.perf_counter(), time.process_time()
        keys = await search(question)
        self.cpu_ms.append((time.process_time() - cpu_began) * 1000)
        self.took_ms.append((time.perf_counter() - began) * 1000)
        for depth, shares in self.shares.items():
            shares.append(len({*keys[:depth]} & {*wanted[:depth]}) / len(wanted[:depth]))

    def as_measured(self, index: str, one: Searched) -> Measured:
        """The means and percentiles."""
        return Measured(
            index=index,
            tenant=one.label,
            memories=len(one.numbers),
            recall={depth: float(np.mean(values)) for depth, values in self.shares.items()},
            p50_ms=float(np.percentile(self.took_ms, 50)),
            p95_ms=float(np.percentile(self.took_ms, 95)),
            cpu_p50_ms=float(np.percentile(self.cpu_ms, 50)),
        )


async def compare(vectors: GivenVectors, folder: Path, of_tenants: Sequence[int]) -> list[Measured]:
    """Fill an index, and search it as it is written and optimised, as every tenant."""
    sparse, size = SparseEncoder(), len(vectors.documents)
    tenants = _tenants(size, of_tenants)
    index = EdgeIndex(folder, vectors, sparse)
    await index.open()
    steps = changes([_memory(number, tenant) for tenant, numbers in tenants.items() for number in numbers])
    for start in range(0, size, _AT_ONCE):
        await index.apply(steps[start : start + _AT_ONCE])
    await index.save()
    say(f"{size:,} memories are written")
    parts = [part for name, numbers in tenants.items() for part in _parts(name, numbers)]
    found = [one for part in parts for one in await _measured(part, {AS_WRITTEN: _asked(index, part)}, vectors)]
    began = time.perf_counter()
    await index.optimise()
    say(f"optimised in {time.perf_counter() - began:.0f} s")
    for part in parts:
        ways = {OPTIMISED: _asked(index, part), UNTOLD: _untold(index, part)}
        found += await _measured(part, ways, vectors)
    await index.close()
    return found


def _tenants(size: int, of_tenants: Sequence[int]) -> dict[str, range]:
    """The numbers of each tenant's memories."""
    ends = [*accumulate(of_tenants), size]
    return {f"of {end - start:,}": range(start, end) for start, end in pairwise([0, *ends])}


def _parts(tenant: str, numbers: range) -> list[Searched]:
    of_kind = [number for number in numbers if _kind(number) == _KINDS[0]]
    return [
        Searched(tenant=tenant, of_kind=False, numbers=numbers),
        Searched(tenant=tenant, of_kind=True, numbers=of_kind),
    ]


async def _measured(part: Searched, ways: Mapping[str, Search], vectors: GivenVectors) -> list[Measured]:
    """Each question asked in every way, one after another, of a part."""
    exact = _exact(vectors.documents[list(part.numbers)], vectors.questions, max(_DEPTHS))
    seen = {way: _Seen() for way in ways}
    for question, best in zip(vectors.questions, exact, strict=True):
        wanted = [memory_key(part.tenant, f"m-{part.numbers[place]}") for place in best]
        for way, search in ways.items():
            await seen[way].ask(search, question, wanted)
    return [one.as_measured(way, part) for way, one in seen.items()]


def _asked(index: EdgeIndex, part: Searched) -> Search:
    """As a recall asks."""

    async def search(question: Vector) -> Sequence[int]:
        hits = await index.search_dense(question.tolist(), part.scope, max(_DEPTHS), -1.0)
        return [key for key, _ in hits]

    return search


def _untold(index: EdgeIndex, part: Searched) -> Search:
    """With what the engine has as a default."""

    shard = index._live.checked()  # pyright: ignore[reportPrivateUsage]

    async def search(question: Vector) -> Sequence[int]:
        query = qe.Query.Nearest(question.tolist(), using="dense")
        wanted = qe.QueryRequest(
            query=query, limit=max(_DEPTHS), filter=edge_filter(scope_filter(part.scope)), score_threshold=-1.0
        )
        return [int(point.id) for point in shard.query(wanted)]

    return search


def _exact(documents: Array, questions: Array, depth: int) -> list[list[int]]:
    """The places of the nearest documents of every question, best first."""
    found: list[list[int]] = []
    for question in questions:  # the cosines of all at once would take a hundred megabytes
        found.append(np.argsort(-(documents @ question), kind="stable")[:depth].tolist())
    return found


def _memory(number: int, tenant: str) -> Memory:
    return compose(MemoryV1(id=f"m-{number}", text=f"note {number}", kind=_kind(number)), tenant)


def _kind(number: int) -> str:
    return _KINDS[number % len(_KINDS)]


def _units(values: npt.NDArray[Any]) -> Array:
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


def _number(text: str) -> int:
    return int(text.rpartition(" ")[2])


def show(found: list[Measured], out: Console) -> None:
    """A row for each state of the index and tenant."""
    columns = (
        "index",
        "tenant",
        "memories",
        *(f"recall@{depth}" for depth in _DEPTHS),
        "P50 ms",
        "P95 ms",
        "CPU ms",
    )
    rows = [
        (one.index, one.tenant, f"{one.memories:,}", *(f"{one.recall[depth]:.4f}" for depth in _DEPTHS),
         f"{one.p50_ms:.2f}", f"{one.p95_ms:.2f}", f"{one.cpu_p50_ms:.2f}")
        for one in found
    ]  # fmt: skip
    out.print(table(columns, rows))


def main() -> None:
    """Read the options, measure, print."""
    parser = parser_of(__doc__)
    parser.add_argument("--size", type=int, default=100_000, help="memories in all, at most")
    parser.add_argument("--tenants", type=sizes, default=[1_000], metavar="N,...", help="memories of each, but one")
    parser.add_argument("--queries", type=int, default=200)
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
