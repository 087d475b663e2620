"""How well a system finds what answers: recall at 5 and 10 on tests/data/golden, one conversation after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from orion_recall.evaluation.dataset import JudgedQuery, RunLine, read_memories, read_queries
from orion_recall.evaluation.measures import Wanted, judged, measure
from orion_recall.evaluation.score import Mean, score
from orion_recall.values import Memory
from tests.bench.peers.asked import System

_GOLDEN = Path(__file__).parents[2] / "data" / "golden"
DEPTHS = (5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """The golden set: conversations, and the questions of each that are judged."""

    memories: Sequence[Memory]
    queries: Sequence[JudgedQuery]

    @classmethod
    def read(cls) -> Golden:
        """From tests/data."""
        queries = judged(read_queries(_GOLDEN / "queries.jsonl"))
        return cls(memories=read_memories(_GOLDEN / "memories.jsonl"), queries=queries)


async def recall_on(golden: Golden, system: System) -> dict[int, Mean]:
    """Recall by depth, with its 95 % interval. Each conversation is stored apart, and asked for ten memories."""
    run: dict[str, RunLine] = {}
    by_conversation = sorted(golden.memories, key=lambda one: one.tenant)
    for conversation, memories in groupby(by_conversation, key=lambda one: one.tenant):
        await system.fill_conversation(list(memories))
        for query in golden.queries:
            if query.conversation == conversation:
                run[query.id] = RunLine(ranked=tuple(await system.ranked(query)), selected=None, line=0)
    scores, _ = score(measure(run, golden.queries, Wanted(depths=DEPTHS)))
    return {depth: scores.means[f"recall@{depth}"] for depth in DEPTHS}
