"""Recorded inputs of every engine and stage, one set for each question.

They are recorded from the product's own sources on a copy of the worker's data, which is then closed again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from orion_recall.bus.envelope import encode_request
from orion_recall.contracts import QUERY_KIND, RecallOptionsV1, RecallQueryV1
from orion_recall.graph.vocabulary import Row
from orion_recall.interfaces import OwnGraph
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens, TokenVectors
from orion_recall.profile import CANDIDATES, Profile
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.bundle.select import Caps
from orion_recall.recall.candidates.fuse import fuse
from orion_recall.recall.search.all_sources import search_all
from orion_recall.recall.search.requests import caps_of, scope_of
from orion_recall.recall.understand.question import Understanding, understand
from orion_recall.serving.backends import Opened, open_sources, timeline_table
from orion_recall.settings import Settings
from orion_recall.sources.graph import RdfSource
from orion_recall.sources.timeline import TimelineSource
from orion_recall.sources.timeline_sql import timeline_query
from orion_recall.values import MemoryView, Scope, SearchRequest, SourceName, SourceReport

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question with the inputs of its stages. `sparql` is None where no entity is named."""

    query: RecallQueryV1
    envelope: bytes
    now: float
    understanding: Understanding
    scope: Scope
    limit: int
    vector: list[float]
    tokens: Tokens
    terms: SparseTerms
    entity_terms: SparseTerms
    sparql: str | None
    sql: tuple[str, list[Any]]
    reports: Sequence[SourceReport]
    pool: list[int]
    memories: Mapping[int, MemoryView]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The recorded questions, their profile, and the speakers of the memories."""

    profile: Profile
    caps: Caps
    speakers: frozenset[str]
    asked: Sequence[Asked]


class _RecordingGraph:
    """A graph that records its last query."""

    kind = "graph"
    damage: str | None = None
    stalled: str | None = None

    def __init__(self, graph: OwnGraph) -> None:
        self._graph = graph
        self.heard: str | None = None

    async def select(self, query: str) -> Sequence[Row]:
        self.heard = query
        return await self._graph.select(query)

    async def check(self) -> None:
        await self._graph.check()


async def take_inputs(
    settings: Settings, profile_name: str, queries: Sequence[RecallQueryV1], now: float
) -> Inputs:
    """The inputs of the queries on the data of the settings' folder, which nobody else may have open."""
    profile = loaded_profiles(settings.profiles_dir)[profile_name].profile
    async with open_sources(settings) as opened:
        assert opened.index is not None and opened.graph is not None, opened.broken
        tenant = settings.default_tenant
        speakers = await opened.index.speakers(Scope(tenant=tenant))
        asked = [await _asked(settings, opened, profile, query, now) for query in queries]
    return Inputs(profile=profile, caps=caps_of(profile, RecallOptionsV1()), speakers=speakers, asked=asked)


async def _asked(settings: Settings, opened: Opened, profile: Profile, query: RecallQueryV1, now: float) -> Asked:
    assert opened.index is not None and opened.graph is not None and isinstance(opened.embedder, TokenVectors)
    scope = scope_of(query, profile, settings.default_tenant)
    speakers = await opened.index.speakers(scope)
    understanding = understand(query, profile, now=now, speakers=speakers)
    question = understanding.question
    request = SearchRequest(
        question=question,
        scope=scope,
        limit=CANDIDATES[profile.budget],
        min_score=profile.min_similarity,
        window_minutes=profile.sql_since_minutes,
        hops=profile.graph.hops,
        max_entities=profile.graph.max_entities,
        max_statements=profile.graph.max_statements,
    )
    listener = _RecordingGraph(opened.graph)
    sources = dict(opened.sources.by_name) | {"rdf": RdfSource(listener, opened.index)}
    reports = await search_all(
        {name: sources[name] for name in profile.sources_on},
        dict.fromkeys(profile.sources_on, request),
        opened.sources.breakers,
        timeout_s=_TIMEOUT_S,
        retries=0,
    )
    silent = {report.source: report.error for report in reports if report.status in ("failed", "late")}
    assert not silent, silent
    weights = cast("dict[SourceName, float]", profile.fusion.weights.model_dump())
    limit = max(profile.rank_pool, profile.max_total_items)
    candidates = fuse(reports, method=profile.fusion.method, k=profile.fusion.k, weights=weights, limit=limit)
    pool = [candidate.key for candidate in candidates]
    sparse = SparseEncoder()
    assert settings.dsn is not None
    timeline = TimelineSource(settings.dsn, timeline_table(settings))
    shape = await timeline.shape()
    await timeline.close()
    return Asked(
        query=query,
        envelope=_envelope(query),
        now=now,
        understanding=understanding,
        scope=scope,
        limit=request.limit,
        vector=(await opened.embedder.embed_query(question.dense_text)).tolist(),
        tokens=await opened.embedder.query_tokens(question.dense_text),
        terms=sparse.encode_query(question.keyword_text),
        entity_terms=sparse.encode_query(question.text),
        sparql=listener.heard,
        sql=timeline_query(shape, request),
        reports=reports,
        pool=pool,
        memories=await opened.index.fetch(pool),
    )


def _envelope(query: RecallQueryV1) -> bytes:
    return encode_request(
        QUERY_KIND,
        json.loads(query.model_dump_json(exclude_unset=True)),
        correlation_id="0" * 32,
        source={"name": "bench"},
        reply_to="recall.reply.v1:" + "0" * 32,
        ttl_ms=10_000,
    )
