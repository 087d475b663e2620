"""Confidence and cascade in replies and decisions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from orion_recall.contracts.fields import Message

Share = Annotated[float, Field(ge=0, le=1)]
MergeStrategy = Literal["confidence_weighted", "layer_weighted", "recency_weighted", "score_weighted"]
"""How the items of several layers became one order: by a sum in which one part weighs most."""
NotAsked = Literal["other_kinds", "other_tags", "no_session", "no_user", "no_time"]
"""Why a layer was not searched: the query wants other kinds or tags, has no session or user, no time was left."""
Trigger = Literal[
    "not_asked",
    "nothing_found",
    "relevance_unknown",
    "relevance_below_minimum",
    "confidence_below_threshold",
    "sure",
]
NoAnswerReason = Literal[
    "no_words",
    "greeting",
    "thanks",
    "farewell",
    "acknowledgement",
    "small_talk",
    "below_min_probability",
    "below_min_confidence",
    "below_min_score",
]
"""Nothing to search for (no word, or one of the kinds of small talk), or a number below the profile's minimum."""


class ConfidenceV1(Message):
    """Confidence of an item: 0.35 relevance + 0.25 quality + 0.15 recency + 0.15 consistency + 0.1 completeness."""

    overall: Share
    level: Literal["low", "medium", "high"] = Field(description="low under 0.5, medium under 0.75, else high")
    semantic_relevance: Share = Field(description="how close it is to the question")
    source_quality: Share = Field(
        description="what memories of its kind are worth, whether several sources found it, how sure its "
        "sender was, and what feedback said of it"
    )
    recency: Share
    consistency: Share = Field(description="whether its tags or another memory confirm or doubt it")
    completeness: Share = Field(description="how much is known of it: time, speaker or title, place, names, tags")


class CascadeStepV1(Message):
    """One layer of a cascade, in the order in which they were asked; those of one depth were asked together."""

    layer: str
    depth: int = Field(description="0: the first layer; 1: those that it names, and so on")
    hits: int = Field(description="memories that its sources found")
    confidence: Share | None = Field(description="of its first item; null when there is none")
    relevance: Share | None = Field(
        default=None, description="the semantic relevance of its first item; null where only words tell of it"
    )
    ms: float
    late: list[str] = Field(description="sources that did not answer in the time that was left")
    not_asked: NotAsked | None = Field(default=None, description="why it was not searched")


class CascadeV1(Message):
    """The path of a cascade through the layers of memory, and why it went on and stopped."""

    primary_layer: str
    primary_confidence: Share | None
    cascaded_to: list[str] = Field(description="layers that were asked after the first, in order of precedence")
    cascade_confidences: list[Share | None] = Field(description="of their first items, in the same order")
    final_confidence: Share | None
    threshold: Share
    min_relevance: Share = Field(default=0.0, description="the relevance under which no layer is sure enough")
    depth: int = Field(description="how many times next layers were asked")
    max_depth: int
    ended: Literal["confident", "depth", "no_layer", "deadline"] = Field(description="why it ended")
    trigger: Trigger = Field(description="what the first layer's answer was against threshold and minimum")
    merge_strategy: MergeStrategy | None = Field(
        default=None,
        description="the part that weighs most in the score of merged items (`cascade.merge`); null where there "
        "was nothing to merge",
    )
    combined: dict[str, int] = Field(description="items of each layer in the answer")
    path: list[CascadeStepV1]


class NoAnswerV1(Message):
    """The reason for an empty bundle although memories were found, or nothing was searched (a greeting)."""

    reason: NoAnswerReason
    value: float | None = Field(default=None, description="the number that is below its minimum")
    minimum: float | None = None
    near_misses: int = Field(description="items that would have been handed over")
