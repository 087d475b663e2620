"""Memories, hits, a profile and sources to recall from, made in one line each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orion_recall.contracts import RecallQueryV1, read_message
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.search.requests import TimeLimits
from orion_recall.recall.types import Pool, Sources, StageTimes
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.text.normal import memory_key, text_hash
from orion_recall.values import Hit, MemoryView, Question, Scope, SearchRequest, SourceName, SourceReport

NOW = 1_772_400_000.0
TENANT = "default"
HEAD = r"- \[(?:\d{4}-\d\d-\d\d|undated) (?:vector|lexical|rdf|sql_timeline) [^\]]*\] "


def key(name: str) -> int:
    return memory_key(TENANT, name)


def view(name: str, text: str | None = None, **fields: Any) -> MemoryView:
    text = f"the words of {name}" if text is None else text
    return MemoryView(id=name, text=text, text_hash=text_hash(text), **fields)


def hit(name: str, score: float, **fields: Any) -> Hit:
    return Hit(key=key(name), score=score, **fields)


def report(source: SourceName, scores: Mapping[str, float]) -> SourceReport:
    """The hits by name, best first."""
    hits = sorted((hit(name, score) for name, score in scores.items()), key=lambda each: -each.score)
    return SourceReport(source=source, status="ok" if hits else "empty", hits=tuple(hits))


def scored(name: str, text: str | None = None, **fields: Any) -> ScoredCandidate:
    """A scored candidate; `source`, `score`, `path` and `statements` beside the memory's own fields."""
    source: SourceName = fields.pop("source", "vector")
    score, statements = fields.pop("score", 0.5), fields.pop("statements", ())
    path = fields.pop("path", 0.0)
    candidate = Candidate(key=key(name), ranks={source: 1}, best_source=source, statements=statements, path=path)
    return ScoredCandidate(candidate=candidate, memory=view(name, text, **fields), score=score, parts={})


def profile(**changes: Any) -> Profile:
    """A profile whose caps and thresholds let everything through, with changes."""
    values: dict[str, Any] = {
        "profile": "test.v1",
        "vector_top_k": 100,
        "rdf_top_k": 100,
        "enable_sql_timeline": True,
        "sql_top_k": 100,
        "max_per_source": 100,
        "max_total_items": 100,
        "render_budget_tokens": 10_000,
        "source_timeout_ms": 2000,
        "source_retries": 0,
    }
    return Profile.model_validate(values | changes)


def query(fragment: str = "what about the crane?", **fields: Any) -> RecallQueryV1:
    return read_message(RecallQueryV1, {"fragment": fragment, **fields}, "payload")


class FakeSource:
    """Answers with its hits, in turn with its errors first; waits for `opened` where one is given."""

    def __init__(
        self,
        name: SourceName,
        hits: Iterable[Hit] = (),
        *,
        errors: Iterable[Exception] = (),
        opened: asyncio.Event | None = None,
    ) -> None:
        self.name: SourceName = name
        self.hits, self.errors, self.opened = tuple(hits), list(errors), opened
        self.requests: list[SearchRequest] = []

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        self.requests.append(request)
        if self.opened is not None:
            await self.opened.wait()
        if self.errors:
            raise self.errors.pop(0)
        return self.hits[: request.limit]


class Shelf:
    """A reader of the memories it is given."""

    def __init__(self, *memories: MemoryView, error: Exception | None = None) -> None:
        self.memories = {key(memory.id): memory for memory in memories}
        self.error = error

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        if self.error is not None:
            raise self.error
        return {one: self.memories[one] for one in keys if one in self.memories}


class Speakers:
    """A lexicon of the names it is given."""

    def __init__(self, *names: str, error: Exception | None = None) -> None:
        self.names, self.error = frozenset(names), error

    async def speakers(self, scope: Scope) -> frozenset[str]:
        if self.error is not None:
            raise self.error
        return self.names


def sources(tokens: TokenCounter, arms: Iterable[FakeSource], *memories: MemoryView, **changes: Any) -> Sources:
    """Arms over one shelf of memories."""
    made = Sources(by_name={arm.name: arm for arm in arms}, tokens=tokens, readers=(Shelf(*memories),))
    return replace(made, **changes)


def search_pass(tokens: TokenCounter, made: Profile | None = None, *, seconds: float = 5.0, **changes: Any) -> Pool:
    """A pass for the question "what?" that has so many seconds and may see all of the tenant `default`;
    `changes` are those of its sources."""
    asked = Question(text="what?", dense_text="what?", keyword_text="", terms=frozenset(), now=NOW, text_hash="")
    return Pool(
        query=query("what?"),
        understood=Understanding(question=asked, named_speaker=None),
        profile=made or profile(),
        scope=Scope(tenant="default"),
        sources=sources(tokens, (), **changes),
        applied_position=0,
        limits=TimeLimits(pass_s=seconds, full_s=seconds, own_s=seconds),
        times=StageTimes(),
        requests={},
    )
