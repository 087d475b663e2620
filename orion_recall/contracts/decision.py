"""Decisions: the entry of every query in the decision log."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from orion_recall.contracts.fields import EnvelopeMoment, Message, WholeMs
from orion_recall.contracts.recall import CascadeV1, ConfidenceV1, NoAnswerV1, SourceStats
from orion_recall.values import LedBy, Outcome, SourceName, SuccessionReason

DECISION_KIND = "recall.decision.v1"
V1_FIELDS = (
    "id", "corr_id", "session_id", "node_id", "verb", "profile", "query", "selected_ids", "dropped",
    "backend_counts", "latency_ms", "created_at",
)  # fmt: skip


class SuccessionV1(Message):
    """A stated succession of an item: the other memory, the reason's code, and the ids of what states it."""

    id: str
    reason: SuccessionReason
    evidence: list[str] = Field(default_factory=list[str])


class SelectedV1(Message):
    """One selected item as the decision log keeps it."""

    id: str
    source: SourceName
    score: float
    parts: dict[str, float]
    ranks: dict[str, int]
    confidence: ConfidenceV1 | None = None
    layer: str | None = None
    succeeds: SuccessionV1 | None = Field(default=None, description="the memory whose place and score it has")
    ended_by: SuccessionV1 | None = Field(default=None, description="its successor")


class CandidateV1(Message):
    """One candidate of a recall as the decision log keeps it; of a memory that may not be seen there is none."""

    id: str
    source: SourceName = Field(description="the source that ranked it best, or that of what led to it")
    ranks: dict[str, int] = Field(description="its rank in every source that found it, from 1")
    fused: float = Field(description="its score after the fusion")
    place: int | None = Field(default=None, description="its place in the final order, from 1; null: not in it")
    score: float | None = Field(default=None, description="its final score; null: it was dropped before it had one")
    parts: dict[str, float] = Field(default_factory=dict[str, float], description="the parts of the score, 0 to 1")
    led_by: LedBy | None = Field(default=None, description="what led to it, where no source found it")
    weights: dict[str, float] = Field(default_factory=dict[str, float], description="their weights in the score")
    kept: bool = Field(default=False, description="whether it is in the bundle")
    dropped: str | None = Field(default=None, description="why it is not: near_duplicate, token_budget and so on")
    dropped_for: str | None = Field(default=None, description="the memory that was kept in its place, if any")
    layer: str | None = None
    succeeds: SuccessionV1 | None = Field(default=None, description="the memory whose place and score it has")
    ended_by: SuccessionV1 | None = Field(default=None, description="its successor")


class CanaryV1(Message):
    """Which of two profiles answered a query, where the profile that it came to has a canary."""

    trial: str = Field(description="the same until either profile is edited")
    profile: str = Field(description="the control: the profile that the query came to")
    canary: str = Field(description="the profile that answers a share of the sessions instead")
    variant: Literal["canary", "control"] = Field(description="which of the two answered")
    share: Annotated[float, Field(ge=0, le=1)] = Field(description="the share of the sessions that it answers")


class RecallDecisionV1(Message):
    """The decision on a query: items found, kept and dropped, with reasons, sources, times and profile."""

    id: str
    corr_id: str
    session_id: str | None = None
    node_id: str | None = None
    verb: str | None = None
    profile: str
    query: str = Field(description="the fragment's first 4,000 characters, its hash, or empty")
    selected_ids: list[str]
    backend_counts: dict[str, int]
    latency_ms: WholeMs
    dropped: dict[str, int]
    created_at: EnvelopeMoment
    outcome: Outcome
    error: str | None = None
    tenant: str | None = None
    scope: str | None = None
    user_id: str | None = None
    intent: str | None = None
    profile_requested: str | None = None
    profile_hash: str | None = None
    profile_fallback: bool = False
    sources: dict[str, SourceStats] = Field(default_factory=dict[str, SourceStats])
    selected: list[SelectedV1] = Field(default_factory=list[SelectedV1])
    weights: dict[str, float] | None = Field(default=None, description="of the parts; null: none, or several")
    stage_ms: dict[str, float] = Field(default_factory=dict[str, float], description="by stage, and their `total`")
    tokens: int = 0
    query_chars: int = 0
    unknown_fields: int = 0
    deliveries: int = 1
    entry_id: str | None = None
    reply_to: str | None = None
    trace_id: str | None = None
    worker: str | None = None
    understood: dict[str, JsonValue] | None = Field(default=None, description="times, class, people, entities …")
    confidence: float | None = Field(default=None, description="how sure the answer is; null without an item")
    cascade: CascadeV1 | None = Field(default=None, description="the way through the layers, where there was one")
    no_answer: NoAnswerV1 | None = None
    strategy: str | None = Field(default=None, description="the strategies used (`temporal+list`); null: none")
    shadow_of: str | None = Field(default=None, description="the decision that answered, where this is a shadow's")
    answer_probability: float | None = Field(default=None, description="that anything found answers, if known")
    canary: CanaryV1 | None = Field(default=None, description="which profile answered, where there is a canary")
    asked: dict[str, JsonValue] | None = Field(
        default=None,
        description="what was asked beside the text: `options` as given, `turn` and `lane` where given, and of "
        "what was recalled `scope`, `clock` (what was now), `zone`, `limits`; words where query text is kept",
    )
    read_at: dict[str, int] | None = Field(default=None, description="outbox positions of `index` and `graph` then")
    build: dict[str, str] | None = Field(default=None, description="version, model, extractor, hash of the weights")
    not_replayable: str | None = Field(default=None, description="why it cannot be asked again; null: it can")
    candidates: list[CandidateV1] | None = Field(default=None, description="the candidates, best first, where kept")
    unsure: bool = Field(default=False, description="whether nothing clearly answers: only the nearest are given")


def v1_decision(decision: RecallDecisionV1) -> dict[str, Any]:
    """The decision as JSON with the V1 fields only, for readers that forbid others."""
    return decision.model_dump(mode="json", include=set(V1_FIELDS))
