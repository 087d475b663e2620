"""The walk over conversations: PageRank from the turns that match a question to those around them.

The nodes are the candidates, the turns that the graph links to the first of them (next turn, references by id and
URI), and those that the keyword index finds by their keywords. Replies, references in words and shared topics are
read from the turns' texts: all of these are a few hundred at most, however many memories there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from orion_recall.errors import ModelError, SourceError
from orion_recall.graph.conversation import (
    Edges,
    Turn,
    postings_of,
    reference_pairs,
    reply_pairs,
    topic_edges,
    turn_keywords,
)
from orion_recall.graph.walks.spreading import personalised_pagerank
from orion_recall.interfaces import MemoryReader, Source, in_scope
from orion_recall.profile.graph_section import ConversationWalk
from orion_recall.scoring.candidates import Candidate
from orion_recall.sources.turn_links import TurnLink, TurnLinks
from orion_recall.values import MemoryView, Question, Scope, SearchRequest

_MOST_FOUND, _MOST_KEYWORDS, _MOST_FURTHER = 24, 32, 256


class Around(NamedTuple):
    """The turns of a walk by key, candidates first, and the links of the graph between them."""

    memories: Mapping[int, MemoryView]
    links: Sequence[TurnLink]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSearch:
    """What a walk reads from: the graph's links (None: there is no graph), the keyword source, and the readers."""

    walk: ConversationWalk
    links: TurnLinks | None
    lexical: Source | None
    readers: Sequence[MemoryReader]

    async def ranks(
        self, kept: Sequence[tuple[Candidate, MemoryView]], question: Question, request: SearchRequest
    ) -> Mapping[int, float]:
        """The ranks of the turns by key, divided by the highest; the walk starts at the first of `kept`.

        Memories of external stores are no turns. Only memories in the request's scope are gone over.
        """
        turns = [(found, memory) for found, memory in kept if found.read is None]
        seeds = [
            (found, memory)
            for found, memory in turns
            if found.fused > 0 and not {"vector", "lexical"}.isdisjoint(found.ranks)
        ][: self.walk.seeds]
        if not seeds:
            return {}
        around = await self._around(turns, seeds, question, request)
        return ranks(around, {found.key: found.fused for found, _ in seeds}, self.walk)

    async def _around(
        self,
        turns: Sequence[tuple[Candidate, MemoryView]],
        seeds: Sequence[tuple[Candidate, MemoryView]],
        question: Question,
        request: SearchRequest,
    ) -> Around:
        known = {found.key: memory for found, memory in turns}
        searched = seeds[: self.walk.topic_searches]
        links, alike = await asyncio.gather(
            self._links([found.key for found, _ in seeds], request.scope),
            asyncio.gather(*(self._alike(memory, question, request) for _, memory in searched)),
        )
        ends = (end for link in links for end in (link.source, link.target))
        named = dict.fromkeys((*ends, *chain.from_iterable(alike)))
        wanted = [key for key in named if key not in known][:_MOST_FURTHER]
        further = await self._read(wanted)
        inside = {key: further[key] for key in wanted if key in further and in_scope(further[key], request.scope)}
        return Around({**known, **inside}, links)

    async def _links(self, keys: Sequence[int], scope: Scope) -> Sequence[TurnLink]:
        if self.links is None:
            return ()
        try:
            return await self.links.around(keys, scope, steps=self.walk.steps)
        except SourceError:  # the graph is away: the turns beside a candidate are known without it
            return ()

    async def _alike(self, memory: MemoryView, question: Question, request: SearchRequest) -> Sequence[int]:
        """The keys of the memories that share most keywords with one."""
        keywords = sorted(turn_keywords(memory.text))[:_MOST_KEYWORDS]
        if self.lexical is None or not keywords:
            return ()
        asked = replace(question, keyword_text=" ".join(keywords))
        try:
            hits = await self.lexical.search(replace(request, question=asked, limit=_MOST_FOUND, more_words=None))
        except (SourceError, ModelError):
            return ()
        return [hit.key for hit in hits if hit.read is None]

    async def _read(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        if keys:
            for reader in self.readers:
                try:
                    return await reader.fetch(keys)
                except SourceError:
                    continue
        return {}


def ranks(around: Around, seeds: Mapping[int, float], walk: ConversationWalk) -> Mapping[int, float]:
    """Personalised PageRank over the turns, by key, divided by the highest; empty where there is no edge.

    The walk starts again at a seed in proportion to its number, and goes along edges in both directions: from a
    question to its answer, and from the answer to the question.
    """
    places = {key: place for place, key in enumerate(around.memories)}
    edges = _edges(around, places, walk)
    if not len(edges.source):
        return {}
    bias = np.zeros(len(places))
    for key, value in seeds.items():
        bias[places[key]] = value
    found = personalised_pagerank(*edges, bias, damping=walk.damping, rounds=walk.rounds)
    best = float(found.max())
    return {key: float(found[place]) / best for key, place in places.items() if found[place] > 0.0}


def _edges(around: Around, places: Mapping[int, int], walk: ConversationWalk) -> Edges:
    turns = [_turn(memory) for memory in around.memories.values()]
    linked = [
        (link.kind, (places[link.source], places[link.target]))
        for link in around.links
        if link.source in places and link.target in places
    ]
    following = [pair for kind, pair in linked if kind == "next"]
    following += _beside(around, places, known=following)
    postings, weights = postings_of(turns), walk.weights
    return Edges.together(
        part.scaled(weight)
        for weight, part in (
            (weights.next, Edges.of(following)),
            (weights.reply, Edges.of(reply_pairs(turns, following))),
            (
                weights.reference,
                Edges.of(
                    (*(pair for kind, pair in linked if kind == "reference"), *reference_pairs(turns, postings))
                ),
            ),
            (weights.topic, topic_edges(turns, postings)),
        )
        if weight > 0
    )


def _beside(
    around: Around, places: Mapping[int, int], *, known: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The pairs of neighbouring turns that the memories themselves name and the graph did not, each once."""
    there = {frozenset(pair) for pair in known}
    pairs: list[tuple[int, int]] = []
    for key, memory in around.memories.items():
        for other in memory.beside:
            if other in places and (pair := frozenset((places[key], places[other]))) not in there:
                there.add(pair)
                pairs.append((places[key], places[other]))
    return pairs


def _turn(memory: MemoryView) -> Turn:
    return Turn.of(
        memory.text,
        session=memory.session_id,
        speaker=memory.speaker or ("assistant" if memory.assistant else None),
        order=memory.ts,
        about=tuple((told.since, told.until) for told in memory.told),
    )
