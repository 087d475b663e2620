"""The systems that are compared. One more is one more entry of `SYSTEMS`.

like        SQL's LIKE '%word%', what the analysis starts from
bm25_decay  BM25 times exp(-lambda * age): its rank 1
dense       nearest by the embedding of the question: its rank 2
pagerank    personalised PageRank of the conversation graph: its rank 3
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orion_recall.errors import SourceError
from orion_recall.evaluation.baselines import Baseline, LikeSource, OwnWordsSource, WholeQuestionSource
from orion_recall.evaluation.conversation_rank import ConversationRank
from orion_recall.interfaces import MemoryIndex, Source
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.profile import Profile
from orion_recall.serving.backends import Opened
from orion_recall.text.normal import memory_key
from orion_recall.values import Hit, Memory, SearchRequest, SourceName

MOST_TURNS_A_KEYWORD = 200
"""In the graph of more than 1,000 turns: a keyword that more turns have joins none of them. The graph of the
analysis has an edge for every two of them, millions at 10,000 turns."""
_WHOLE_GRAPH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What a system searches: the memories of a file, and the stores that hold them."""

    memories: Sequence[Memory]
    index: MemoryIndex
    embedder: Embedder

    @classmethod
    def of(cls, memories: Sequence[Memory], opened: Opened) -> Corpus:
        """The corpus in open stores; SourceError when there is no index."""
        if opened.index is None:
            raise SourceError("; ".join(opened.broken.values()))
        return cls(memories=memories, index=opened.index, embedder=opened.embedder)

    def by_tenant(self) -> Mapping[str, Sequence[Memory]]:
        """The memories of each tenant, in the order of the file."""
        found: dict[str, list[Memory]] = {}
        for memory in self.memories:
            found.setdefault(memory.tenant, []).append(memory)
        return found


class ConversationRankSource:
    """Turns by PageRank from those that share a keyword with the question; a graph for each tenant."""

    name: SourceName = "lexical"

    def __init__(self, corpus: Corpus) -> None:
        self.graphs = {
            tenant: ConversationRank.build(
                memories, most_turns=None if len(memories) <= _WHOLE_GRAPH else MOST_TURNS_A_KEYWORD
            )
            for tenant, memories in corpus.by_tenant().items()
        }

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Highest rank first."""
        tenant = request.scope.tenant
        found = self.graphs[tenant].ranks(request.question.text, request.limit) if tenant in self.graphs else []
        return [Hit(memory_key(tenant, one.id), one.rank) for one in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system: how it is called, its target in milliseconds (P95; None: none), its source and its profile."""

    name: str
    label: str
    target_ms: float | None
    make: Callable[[Corpus], Source]
    profile: Profile


def _like(corpus: Corpus) -> Source:
    texts = {
        tenant: [(memory_key(tenant, one.id), one.text.casefold()) for one in memories]
        for tenant, memories in corpus.by_tenant().items()
    }
    return LikeSource(texts)


SYSTEMS: tuple[System, ...] = (
    System(name="like", label="LIKE", target_ms=None, make=_like, profile=Baseline(name="like").profile),
    System(
        name="bm25_decay",
        label="BM25 with decay",
        target_ms=15.0,
        make=lambda corpus: OwnWordsSource(corpus.index, SparseEncoder()),
        profile=Baseline(name="bm25_decay").profile,
    ),
    System(
        name="dense",
        label="Semantic",
        target_ms=100.0,
        make=lambda corpus: WholeQuestionSource(corpus.index, corpus.embedder),
        profile=Baseline(name="dense").profile,
    ),
    System(
        name="pagerank",
        label="Graph PageRank",
        target_ms=None,
        make=ConversationRankSource,
        profile=Baseline(name="like").profile.model_copy(update={"profile": "baseline.pagerank"}),
    ),
)
MEMORY_OPERATION_MS, PIPELINE_MS = 50.0, 500.0
"""The targets for storing one turn and for a whole recall, P95."""
