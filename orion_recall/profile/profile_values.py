"""The values of a profile: its keys with their defaults, bounds and descriptions, and the checks across keys."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from orion_recall.profile.sections import (
    LAYER_NAMES,
    MIN_RELEVANCE_SHARE,
    ROUNDING,
    Canary,
    Cascade,
    DecisionsKept,
    Expansion,
    Fusion,
    GraphWalk,
    NoAnswer,
    RankingWeights,
    Render,
    Rerank,
    Section,
    Shadow,
    Share,
    TimeInQuestions,
    relevance_share,
    section_values,
)
from orion_recall.values import ReaderInstructions, SourceName, Superseded

Scope = Literal["session", "user", "global"]
Budget = Literal["low", "mid", "high"]
Caller = Annotated[str, Field(pattern=r"^[^=]+=[^=]+$", max_length=1024)]
TopK = Annotated[int, Field(ge=0, le=1000)]

DEFAULT_HALF_LIFE_HOURS = 72.0
_DECAYS_AGREE = 0.05  # of the half-life: 0.01 an hour and "three days" are the same
CANDIDATES: dict[Budget, int] = {"low": 100, "mid": 300, "high": 1000}


class ProfileValues(Section):
    """The values of a profile: sources, search depth, ranking, and size of the rendered text."""

    profile: str = Field(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$", description="Name and version (reflect.v1), as that of the file."
    )
    description: str = Field(
        default="", max_length=1000, description="What the profile is for, in a sentence or two."
    )
    scope: Scope = Field(default="global", description="Whose memories are searched, unless the query says.")
    budget: Budget = Field(
        default="mid", description="How deep each source searches: low 100, mid 300 or high 1000 candidates."
    )
    vector_top_k: TopK = Field(description="Hits the vector source may bring to selection; 0 switches it off.")
    lexical_top_k: TopK | None = Field(
        default=None, description="Hits the keyword source may bring to selection; 0: off, null: as vector_top_k."
    )
    rdf_top_k: TopK = Field(description="Hits the graph source may bring to selection; 0 switches it off.")
    enable_sql_timeline: bool = Field(
        default=False, description="Whether the SQL timeline (recent rows of a table) is searched."
    )
    sql_top_k: TopK = Field(
        default=8, description="Hits the SQL timeline may bring to selection; 0 switches it off."
    )
    sql_since_minutes: int = Field(
        default=180, ge=1, le=5_256_000, description="How far back the SQL timeline looks, in minutes."
    )
    max_per_source: int = Field(ge=1, le=1000, description="Items of one source in a bundle, at most.")
    max_total_items: int = Field(ge=1, le=1000, description="Items in a bundle, at most.")
    time_decay_half_life_hours: float | None = Field(
        default=None, gt=0, le=1_000_000, description="The age at which recency has halved, in hours; null: 72."
    )
    time_decay_lambda_per_hour: float | None = Field(
        default=None,
        gt=0,
        le=1_000,
        description="The same as a rate an hour: 0.001 is 29 days, 0.01 3 days, 0.1 7 hours.",
    )
    recency_floor: Share = Field(
        default=0.05, description="The recency an old memory keeps, from 0 to 1 (no unit)."
    )
    render_budget_tokens: int = Field(
        ge=1, le=1_000_000, description="The length of the rendered text, at most, in cl100k_base tokens."
    )
    enable_query_expansion: bool = Field(
        default=True, description="Whether terms, entities and aliases are added to the search."
    )
    over_budget: Literal["skip", "stop"] = Field(
        default="skip", description="For an item over the token budget: `skip` tries the next, `stop` ends there."
    )
    reader_instructions: ReaderInstructions = Field(
        default="keep",
        description="Memories that tell their reader what to do: `keep`, `flag`, put `down` (last) or `hold` back.",
    )
    snippet_tokens: int = Field(
        default=48, ge=8, le=512, description="The window of a memory shown around the best match, in tokens."
    )
    later_snippet_tokens: int = Field(
        default=512, ge=8, le=512, description="The window of memories after the first two, if smaller."
    )
    min_similarity: Share = Field(
        default=0.0, description="The cosine similarity under which the vector source drops a hit (0 to 1)."
    )
    min_score: Share = Field(default=0.0, description="The final score under which an item is dropped (0 to 1).")
    rank_pool: int = Field(default=64, ge=10, le=500, description="How many fused candidates are ranked in full.")
    max_repetition: Share = Field(
        default=1.0, description="The share of an item's words that an earlier one may have, else it waits."
    )
    source_timeout_ms: int = Field(
        default=800, ge=10, le=60_000, description="How long one source may take, in milliseconds."
    )
    source_retries: int = Field(
        default=1, ge=0, le=5, description="Further tries after a transient error of a source, inside its time."
    )
    fusion: Fusion = Field(default=Fusion(), description="How the sources' lists become one list.")
    ranking: RankingWeights = Field(default=RankingWeights(), description="Weights of the final score's parts.")
    rerank: Rerank = Field(
        default=Rerank(), description="Whether and how the best are judged once more by a reranker."
    )
    time: TimeInQuestions = Field(
        default=TimeInQuestions(), description="How times in questions are read and used."
    )
    expansion: Expansion = Field(
        default=Expansion(), description="Further words that the keyword source searches for."
    )
    graph: GraphWalk = Field(default=GraphWalk(), description="How far the graph source walks.")
    callers: tuple[Caller, ...] = Field(
        default=(), strict=False, description="The speaker that a query's `options.user` is, as `[u-17=Ana Miles]`."
    )
    cascade: Cascade = Field(
        default=Cascade(), description="Whether further layers are searched while the answer is not sure enough."
    )
    unsure_below: Share = Field(
        default=0.0, description="The probability that anything answers under which the reply is unsure; 0: never."
    )
    unsure_items: int = Field(
        default=3, ge=1, le=1000, description="How many items an unsure reply hands over, at most."
    )
    when_unsure: Literal["note", "plain"] = Field(
        default="plain", description="`note`: the rendered text of an unsure reply begins with a line that says so."
    )
    no_answer: NoAnswer = Field(
        default=NoAnswer(), description="What an answer must have, or nothing at all is handed over."
    )
    superseded: Superseded = Field(
        default="mark",
        description="A memory with a stated successor stands after it: `mark` says until when it held, `omit` "
        "leaves it out but for questions about an earlier state, `keep` moves and marks nothing.",
    )
    render: Render = Field(default=Render(), description="What a bullet of the rendered text shows.")
    decisions: DecisionsKept = Field(
        default=DecisionsKept(), description="Of which queries the decision log keeps the candidates."
    )
    shadow: Shadow = Field(
        default=Shadow(), description="Another profile that a share of the queries is recalled by as well, unseen."
    )
    canary: Canary = Field(
        default=Canary(), description="Another profile that answers a share of the sessions instead of this one."
    )

    @model_validator(mode="after")
    def _something_can_be_found(self) -> Self:
        if not self.sources_on:
            raise PydanticCustomError(
                "no_source",
                "no source is on: set one of vector_top_k, lexical_top_k and rdf_top_k above 0, "
                "or enable_sql_timeline to true",
                {"key": "vector_top_k"},
            )
        if not any(getattr(self.fusion.weights, name) for name in self.sources_on):
            raise PydanticCustomError(
                "no_weight",
                "every source that is on ({sources}) has the fusion weight 0",
                {"sources": ", ".join(self.sources_on), "key": "fusion.weights"},
            )
        for name in LAYER_NAMES if self.cascade.enabled else ():
            layer = self.cascade.layers.named(name)
            if layer.sources and not any(getattr(self.fusion.weights, source) for source in layer.sources):
                raise PydanticCustomError(
                    "no_weight",
                    "every source of the layer {layer} ({sources}) has the fusion weight 0",
                    {"layer": name, "sources": ", ".join(layer.sources), "key": f"cascade.layers.{name}.sources"},
                )
        return self

    @model_validator(mode="after")
    def _decay_is_told_once(self) -> Self:
        given, rate = self.time_decay_half_life_hours, self.time_decay_lambda_per_hour
        if given is None or rate is None:
            return self
        if abs(given - self.half_life_hours) > given * _DECAYS_AGREE:
            raise PydanticCustomError(
                "decay",
                "a rate of {rate} an hour halves in {halves} hours, and time_decay_half_life_hours says {given}: "
                "give one of the two (null takes the other one back)",
                {
                    "rate": f"{rate:g}",
                    "halves": f"{self.half_life_hours:.4g}",
                    "given": f"{given:g}",
                    "key": "time_decay_lambda_per_hour",
                },
            )
        return self

    @model_validator(mode="after")
    def _relevance_is_not_outvoted(self) -> Self:
        share = relevance_share(self.weights(reranked=True))
        if share < MIN_RELEVANCE_SHARE - ROUNDING:
            raise PydanticCustomError(
                "outvoted",
                "all weights but `recency` together ({counted}) are {share} of the weights and must be at least "
                "{least}: recency must not outvote relevance",
                {
                    "counted": "with `rerank.weight`" if self.rerank.enabled else "without a reranker",
                    "share": f"{share:.4g}",
                    "least": f"{MIN_RELEVANCE_SHARE}",
                    "key": "ranking.recency",
                },
            )
        return self

    @property
    def half_life_hours(self) -> float:
        """The age at which recency has halved, from whichever of the two keys tells it."""
        if (rate := self.time_decay_lambda_per_hour) is not None:
            return math.log(2) / rate
        given = self.time_decay_half_life_hours
        return DEFAULT_HALF_LIFE_HOURS if given is None else given

    def weights(self, *, reranked: bool, time_decides: bool = False) -> dict[str, float]:
        """The weights of the final score's parts, with `rerank` where a reranker has judged.

        Where one is wanted and has not, recency weighs no more than leaves relevance its share.
        `time_decides`: the part `time` weighs as much as all others together.
        """
        weights: dict[str, float] = {**section_values(self.ranking)}
        if time_decides:
            weights["time"] = sum(weights.values()) - weights["time"]
        if not self.rerank.enabled:
            return weights
        if reranked:
            return weights | {"rerank": self.rerank.weight}
        if relevance_share(weights) < MIN_RELEVANCE_SHARE - ROUNDING:
            relevance = sum(weights.values()) - weights["recency"]
            weights["recency"] = relevance * (1 / MIN_RELEVANCE_SHARE - 1)
        return weights

    @property
    def candidates(self) -> int:
        """How many candidates each source searches for."""
        return CANDIDATES[self.budget]

    @property
    def effective_lexical_top_k(self) -> int:
        """`lexical_top_k`, or `vector_top_k` where that is not set."""
        return self.vector_top_k if self.lexical_top_k is None else self.lexical_top_k

    @property
    def sources_on(self) -> tuple[SourceName, ...]:
        """The sources that this profile searches."""
        top_k: dict[SourceName, int] = {
            "vector": self.vector_top_k,
            "lexical": self.effective_lexical_top_k,
            "rdf": self.rdf_top_k,
            "sql_timeline": self.sql_top_k if self.enable_sql_timeline else 0,
        }
        return tuple(name for name, k in top_k.items() if k > 0)
