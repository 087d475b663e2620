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
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import qdrant_edge as qe
from rich.console import Console

from orion_recall.cli.output import table
from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.run_stores import changes
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
from tests.bench.command import at_least, engines_folder, finish, parser_of, say, sizes
from tests.bench.measure import percentile

AS_WRITTEN, OPTIMISED, UNTOLD = "as written", "optimised", "optimised, without parameters"
_AT_ONCE, _DEPTHS, _CLUSTER = 1_000, (10, 100), 100
# A search for a part of a tenant asks for the first kind.
_KINDS = ("fact", "event", "preference")

Array = npt.NDArray[np.float32]
Search = Callable[[EdgeIndex, Vector, Scope], Awaitable[Sequence[int]]]


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
class Measured:
    """A state of the index, and what was searched: the mean share of the exact first k that was found, and ms."""

    index: str
    tenant: str
    memories: int
    recall: dict[int, float]
    p50_ms: float
    p95_ms: float
    cpu_p50_ms: float


async def compare(vectors: GivenVectors, folder: Path, of_tenants: Sequence[int]) -> list[Measured]:
    """Fill an index, and search it as it is written and optimised, as every tenant, whole and for one kind."""
    size = len(vectors.documents)
    ends = [*accumulate(of_tenants), size]
    tenants = {f"of {end - start:,}": range(start, end) for start, end in pairwise([0, *ends])}
    index = EdgeIndex(folder, vectors, SparseEncoder())
    await index.open()
    steps = changes([_memory(number, tenant) for tenant, numbers in tenants.items() for number in numbers])
    for start in range(0, size, _AT_ONCE):
        await index.apply(steps[start : start + _AT_ONCE])
    await index.save()
    say(f"{size:,} memories are written")
    parts = [(name, kinds) for name in tenants for kinds in ((), _KINDS[:1])]
    found: list[Measured] = []
    for name, kinds in parts:
        found += await _measured(index, vectors, tenants[name], name, kinds, {AS_WRITTEN: _asked})
    began = time.perf_counter()
    await index.optimise()
    say(f"optimised in {time.perf_counter() - began:.0f} s")
    for name, kinds in parts:
        ways = {OPTIMISED: _asked, UNTOLD: _untold}
        found += await _measured(index, vectors, tenants[name], name, kinds, ways)
    await index.close()
    return found


async def _measured(
    index: EdgeIndex,
    vectors: GivenVectors,
    numbers: Sequence[int],
    tenant: str,
    kinds: tuple[str, ...],
    ways: Mapping[str, Search],
) -> list[Measured]:
    """Each question asked in every way, one after another, of a tenant or of the memories of these kinds of it."""
    numbers = [number for number in numbers if not kinds or _kind(number) in kinds]
    documents, scope = vectors.documents[numbers], Scope(tenant=tenant, kinds=kinds)
    shares = {way: {depth: list[float]() for depth in _DEPTHS} for way in ways}
    took_ms, cpu_ms = {way: list[float]() for way in ways}, {way: list[float]() for way in ways}
    for question in vectors.questions:  # the cosines of all at once would take a hundred megabytes
        best = np.argsort(-(documents @ question), kind="stable")[: max(_DEPTHS)]
        wanted = [memory_key(tenant, f"m-{numbers[place]}") for place in best]
        for way, search in ways.items():
            began, cpu_began = time.perf_counter(), time.process_time()
            keys = await search(index, question, scope)
            cpu_ms[way].append((time.process_time() - cpu_began) * 1000)
            took_ms[way].append((time.perf_counter() - began) * 1000)
            for depth, each in shares[way].items():
                each.append(len({*keys[:depth]} & {*wanted[:depth]}) / len(wanted[:depth]))
    return [
        Measured(
            index=way,
            tenant=f"{tenant}, one kind" if kinds else tenant,
            memories=len(numbers),
            recall={depth: float(np.mean(values)) for depth, values in shares[way].items()},
            p50_ms=percentile(took_ms[way], 0.5),
            p95_ms=percentile(took_ms[way], 0.95),
            cpu_p50_ms=percentile(cpu_ms[way], 0.5),
        )
        for way in ways
    ]


async def _asked(index: EdgeIndex, question: Vector, scope: Scope) -> Sequence[int]:
    """As a recall asks."""
    hits = await index.search_dense(question.tolist(), scope, max(_DEPTHS), -1.0)
    return [key for key, _ in hits]


async def _untold(index: EdgeIndex, question: Vector, scope: Scope) -> Sequence[int]:
    """With what the engine has as a default."""
    shard = index._live.checked()  # pyright: ignore[reportPrivateUsage]
    query = qe.Query.Nearest(question.tolist(), using="dense")
    where = edge_filter(scope_filter(scope))
    wanted = qe.QueryRequest(query=query, limit=max(_DEPTHS), filter=where, score_threshold=-1.0)
    return [int(point.id) for point in shard.query(wanted)]


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
    recalls = (f"recall@{depth}" for depth in _DEPTHS)
    columns = ("index", "tenant", "memories", *recalls, "P50 ms", "P95 ms", "CPU ms")
    rows = [
        (one.index, one.tenant, f"{one.memories:,}", *(f"{one.recall[depth]:.4f}" for depth in _DEPTHS),
         f"{one.p50_ms:.2f}", f"{one.p95_ms:.2f}", f"{one.cpu_p50_ms:.2f}")
        for one in found
    ]  # fmt: skip
    out.print(table(columns, rows))


def main() -> None:
    """Read the options, measure, print."""
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
