"""A baseline: PageRank over the conversation graph, biased to the query.

The third system of the specification's comparison, to the letter.

Nodes are turns with their keywords. Edges are directed: to the next turn of a session (weight 1), to each later
turn that shares two keywords or more (their number divided by the larger set of keywords), and from a turn that
refers to an earlier one to that turn (weight 1). With d the damping, w the weight of an edge, out the number of
edges that leave a node and q the number of keywords that a turn shares with the query:

    rank(turn) = d * sum over edges into it of rank(from) * w / out(from) + (1 - d) * (1 if q > 0 else 0)

from a rank of 1 for every turn with q > 0, else 0. Edges come from postings: the document's comparison of all pairs
of turns gives the same graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from orion_recall.graph.conversation import (
    Edges,
    Postings,
    Turn,
    next_pairs,
    postings_of,
    reference_pairs,
    topic_edges,
    turn_keywords,
)
from orion_recall.graph.vocabulary import event_time, referred_ids
from orion_recall.values import Memory


class Ranked(NamedTuple):
    """One turn and its rank, which has no upper limit."""

    id: str
    rank: float


class ConversationRank:
    """The graph of one conversation or tenant: `build` it once, then ask for the `ranks` of each query."""

    def __init__(self, ids: Sequence[str], postings: Postings, edges: Edges) -> None:
        self.ids, self.postings, self.edges = ids, postings, edges
        leaving = np.bincount(edges.source, minlength=len(ids))
        self._share = edges.weight / leaving[edges.source]

    @classmethod
    def build(cls, memories: Sequence[Memory], *, most_turns: int | None = None) -> Self:
        """The graph of the memories, dated ones in order of time, undated ones as if said with the one before.

        With `most_turns` keywords that more turns have make no topic: above 10,000 turns of plain talk the
        document's graph has millions of edges, since a frequent keyword joins all turns that have it.
        """
        ordered = _in_order(memories)
        turns = [
            Turn.of(
                memory.text,
                session=memory.session_id,
                speaker=memory.speaker,
                order=float(place),
            )
            for place, memory in enumerate(ordered)
        ]
        places = {memory.id: place for place, memory in enumerate(ordered)}
        postings = postings_of(turns)
        named = (
            (place, places[name])
            for place, memory in enumerate(ordered)
            for name in referred_ids(memory)
            if name in places
        )
        edges = Edges.together(
            (
                Edges.of(next_pairs(turns)),
                topic_edges(turns, postings, most_turns=most_turns),
                Edges.of((*named, *reference_pairs(turns, postings))),
            )
        )
        return cls([memory.id for memory in ordered], postings, edges)

    def ranks(self, query: str, k: int, *, damping: float = 0.85, iterations: int = 15) -> list[Ranked]:
        """The `k` turns of the highest ranks above 0, best first, equal ones in order of time.

        A query without a keyword in any turn gives none.
        """
        matching = self._matching(query)
        rank = matching
        for _ in range(iterations):
            moved = np.bincount(
                self.edges.target, weights=rank[self.edges.source] * self._share, minlength=len(self.ids)
            )
            rank = damping * moved + (1.0 - damping) * matching
        best: list[int] = np.argsort(-rank, kind="stable")[:k].tolist()
        return [Ranked(self.ids[place], float(rank[place])) for place in best if rank[place] > 0.0]

    def _matching(self, query: str) -> NDArray[np.float64]:
        found = np.zeros(len(self.ids))
        for keyword in turn_keywords(query):
            found[list(self.postings.get(keyword, ()))] = 1.0
        return found


def _in_order(memories: Sequence[Memory]) -> list[Memory]:
    """The memories in order of time; those of one time as they come."""
    times: list[float] = []
    for memory in memories:
        moment = event_time(memory)
        times.append(moment if moment is not None else times[-1] if times else float("-inf"))
    return [memories[place] for place in sorted(range(len(memories)), key=times.__getitem__)]
