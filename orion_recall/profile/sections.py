"""The sections of a profile: fusion, ranking, time, reranking, graph, cascade, canary and others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from orion_recall.contracts.recall import MergeStrategy
from orion_recall.renderers import RenderStyle, styles
from orion_recall.scoring.parts import parts
from orion_recall.source_specs import BUILT_IN, MOST_WEIGHT, source_names, specs
from orion_recall.values import GraphMethod, LayerName, SourceName

Weight = Annotated[float, Field(ge=0, le=MOST_WEIGHT)]
Share = Annotated[float, Field(ge=0, le=1)]

MIN_RELEVANCE_SHARE = 0.8
"""The share of the score's weights, a reranker's among them, that is not recency's (decision of 2026-11-21)."""
ROUNDING = 1e-9
"""The tolerance of a sum of weights: 0.7 + 0.1 is not quite 0.8 in floats."""

RELEVANCE_PARTS = tuple(part.name for part in parts() if part.relevance == "of any question")
"""The parts that tell of any question how well a memory fits it: at least one of them needs a weight."""


# Strict: no text becomes a number; a whole number is still taken where a fraction is wanted.
CONFIG = ConfigDict(
    frozen=True, extra="forbid", strict=True, allow_inf_nan=False, field_title_generator=lambda name, _: name
)


class Section(BaseModel):
    """The base of all sections of a profile."""

    model_config = CONFIG


def problem(key: str, message: str) -> PydanticCustomError:
    """The error of a check across keys, which is shown at the key."""
    return PydanticCustomError("profile", "{message}", {"message": message, "key": key})


class _Weights(Section):
    """The base of sections whose keys are made from a registry, each of them a weight."""

    if TYPE_CHECKING:

        def __init__(self, **weights: float) -> None: ...

        def __getattr__(self, name: str) -> float: ...


def _weighed_by(fields: Mapping[str, Any]) -> type[_Weights]:
    """A base with these fields, as `create_model` takes them."""
    return create_model("Weights", __base__=_Weights, **fields)


_OF_SOURCES = _weighed_by(
    {
        spec.name: (Weight, Field(default=spec.weight, description=f"Weight of {spec.title}'s list (no unit)."))
        for spec in specs()
    }
)


class FusionWeights(_OF_SOURCES):
    """The weight of each source's list in the fusion."""


class Fusion(Section):
    """How the lists of the sources are fused into one list."""

    method: Literal["rrf", "min_max", "bm25_decay"] = Field(
        default="rrf",
        description="`rrf` adds weight/(k + rank) of each list; `min_max` adds weighted scores in 0..1; "
        "`bm25_decay` adds weighted scores as shares of the list's best, times exp(-lambda * age), never below "
        "`recency_floor`: with the keyword source alone BM25 with decay.",
    )
    k: int = Field(
        default=60, ge=1, le=10_000, description="The constant of `rrf`: a smaller one favours first ranks."
    )
    weights: FusionWeights = Field(default=FusionWeights(), description="How much each source's list counts.")


def relevance_share(weights: Mapping[str, float]) -> float:
    """The share of the weights that is not recency's; 0 where nothing has any weight."""
    total = sum(weights.values())
    return 1 - weights["recency"] / total if total else 0.0


_OF_PARTS = _weighed_by(
    {part.name: (Weight, Field(default=part.weight, description=part.description)) for part in parts()}
)


class RankingWeights(_OF_PARTS):
    """Weights of the final score's named parts; they are renormalised over the parts an item has."""

    @model_validator(mode="after")
    def _something_tells_relevance(self) -> Self:
        if not any(getattr(self, name) for name in RELEVANCE_PARTS):
            *names, last = (f"`{name}`" for name in RELEVANCE_PARTS)
            raise problem("fusion", f"one of {', '.join(names)} and {last} needs a weight above 0")
        return self

    @property
    def follows(self) -> bool:
        """Whether a part has a weight that needs a follow-up search."""
        return any(getattr(self, name) > 0 for name in ("links", "second_step"))


class TimeInQuestions(Section):
    """How times in questions are read and used, in addition to `ranking.time`, `told` and `tells_time`."""

    search_weight: Weight = Field(default=0.0, description="Weight of a search inside the query's time; 0: none.")
    told_search_weight: Weight = Field(
        default=0.0,
        description="Weight in the fusion of the memories whose text tells a time that the query is about, closest "
        "first and each worth the same; 0: they are not searched for.",
    )
    past_search_weight: Weight = Field(
        default=0.0,
        description="`search_weight` where the named time has a beginning and is over (last summer, in May 2024), "
        "if that is more; 0: it is not searched a second time for being over. Where many memories of other times "
        "fit the question about equally well, such a time decides: it weighs as much as all other parts together.",
    )
    filter: bool = Field(default=False, description="Whether memories of another time are dropped.")
    hemisphere: Literal["north", "south"] = Field(
        default="north", description="Where summer is: June to August in the north, December on in the south."
    )
    day_first: bool = Field(default=False, description="Whether 3/5/2023 is the third of May; 3.5.2023 always is.")

    def weight_of_search(self, *, of_past: bool) -> float:
        """The weight of what is found inside the named time, which may be over; 0: it is not searched for."""
        return max(self.search_weight, self.past_search_weight if of_past else 0.0)


class Expansion(Section):
    """Further words that the keyword source searches for, where `enable_query_expansion` is on."""

    aliases: bool = Field(
        default=False, description="Whether other names of what the query names are searched for."
    )


class Rerank(Section):
    """Whether a reranker scores the best of the ranking, and with what weight."""

    enabled: bool = Field(default=False, description="Whether a reranker, where one is configured, is asked.")
    top_n: int = Field(default=20, ge=1, le=500, description="How many of the best ranked memories it judges.")
    weight: Weight = Field(default=0.5, description="Weight of its score beside those of `ranking`.")
    timeout_ms: int = Field(default=300, ge=10, le=60_000, description="How long it may take, in milliseconds.")


class Render(Section):
    """What a bullet of the rendered text shows."""

    style: RenderStyle = Field(
        default="v1",
        description=f"What stands before title, speaker and text of a memory: {styles()}.",
    )
    relative_dates: bool = Field(default=True, description="Whether relative times are followed by their date.")


class DecisionsKept(Section):
    """What the decision log keeps of a recall besides its outcome: the candidates, of a share of the queries."""

    candidates: int = Field(default=50, ge=0, le=500, description="How many a decision keeps, of the share.")
    share: Share = Field(default=0.0, description="The share of the queries whose decisions keep them.")


class Shadow(Section):
    """A second profile that answers a share of the queries again, for the decision log alone."""

    profile: str | None = Field(default=None, min_length=1, max_length=64, description="Its name; null: none.")
    share: Share = Field(default=0.1, description="The share of the queries that it recalls as well.")


class GraphWalk(Section):
    """How far the graph source walks from the entities of the query."""

    arm: GraphMethod = Field(
        default="neighbourhood",
        description="How memories are ranked by their nearness to the query's entities: ways in the "
        "`neighbourhood`, spreading `activation`, forward `push` along meta-paths, or `pagerank` biased to them.",
    )
    hops: int = Field(default=1, ge=1, le=2, description="How many links away from a query's entity the walk goes.")
    max_entities: int = Field(default=4, ge=1, le=16, description="How many entities of the query start a walk.")
    max_statements: int = Field(default=48, ge=1, le=500, description="How many statements the walk reads at most.")
    similar_entities: int = Field(default=0, ge=0, le=16, description="Further entities of similar names.")
    paths: bool = Field(
        default=False, description="Whether possessive chains (Ana's sister's employer) are followed."
    )
    damping: Share = Field(default=0.6, description="What a node passes on, in `pagerank` and `activation`.")
    rounds: int | None = Field(
        default=None, ge=1, le=100, description="Rounds; null: `pagerank` 20, `activation` 3."
    )
    traverse: tuple[Literal["who", "related", "temporal"], ...] = Field(
        default=(),
        strict=False,
        description="Further questions that are answered along the graph: `who` is X (what X is stated to be), how "
        "A is `related` to B (a path), and what is told of a named time (`temporal`: whose time window fits).",
    )
    path_hops: int = Field(default=4, ge=1, le=5, description="How many edges a path has at most.")
    path_expansions: int = Field(default=60, ge=1, le=1000, description="How many entities a path search expands.")
    path_time: Share = Field(default=0.5, gt=0, description="The share of `source_timeout_ms` for paths.")


class Canary(Section):
    """A second profile that answers a share of the sessions instead."""

    profile: str | None = Field(default=None, min_length=1, max_length=64, description="Its name; null: none.")
    share: Share = Field(default=0.1, description="The share of the sessions that it answers.")


_MOST_KEPT = 64
_kept: dict[int, tuple[BaseModel, Mapping[str, Any]]] = {}


def section_values(section: BaseModel) -> Mapping[str, Any]:
    """The values of a frozen section, as `model_dump` gives them; nobody may change the mapping. Thread-safe."""
    found = _kept.get(id(section))
    if found is None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        # The section is kept as well, so that no other one gets its id.
        found = _kept[id(section)] = section, section.model_dump()
    return found[1]


# The composite score of the specification.
_SPECIFIED = {"confidence": 0.5, "layer": 0.3, "recency": 0.2, "score": 0.0}

_Words = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=512)], ...], Field(strict=False, max_length=64)
]
if TYPE_CHECKING:
    _Source = SourceName
else:
    _Source = Literal[*source_names()]  # so that a profile's check lists them
_Sources = Annotated[tuple[_Source, ...], Field(strict=False, max_length=len(specs()))]
_Layers = Annotated[tuple[LayerName, ...], Field(strict=False, max_length=7)]


class Layer(Section):
    """One layer of a cascade: the memories it searches, its weight, and the layers after it."""

    sources: _Sources = Field(default=(), description="The sources it searches; none: those of the profile.")
    kinds: _Words = Field(default=(), description="The kinds of memories it searches; an empty list is all.")
    tags: _Words = Field(default=(), description="The tags of which a memory must have one; none: all.")
    scope: Literal["session", "user", "global"] | None = Field(
        default=None, description="Whose memories it searches, never wider than the query's; null: as the profile."
    )
    weight: Share = Field(default=0.8, description="How much it counts when layers are merged, from 0 to 1.")
    then: _Layers = Field(default=(), description="The layers that are asked next, in order of precedence.")


def _layer(name: LayerName, kinds: str, weight: float, then: str) -> Layer:
    searches_all = not any(name in spec.layers for spec in BUILT_IN)
    sources = [] if searches_all else [spec.name for spec in specs() if name in spec.layers]
    return Layer.model_validate(
        {"sources": sources, "kinds": kinds.split(), "weight": weight, "then": then.split()}
    )


# What is asked without any sign of its class may be of any kind: a hybrid search over all of them.
_SEMANTIC = _layer("semantic", "", 0.9, "episodic graph procedural")
_EPISODIC = _layer("episodic", "experience observation opinion plan task", 0.85, "semantic graph")
_PROCEDURAL = _layer("procedural", "procedure", 0.8, "episodic semantic")
_PROSPECTIVE = _layer("prospective", "task", 0.7, "procedural semantic")
_GRAPH = _layer("graph", "", 0.75, "semantic episodic")
_META = _layer("meta", "", 0.6, "semantic graph")
_PLANNING = _layer("planning", "plan", 0.7, "semantic procedural")


class Layers(Section):
    """The layers of memory. Each layer's `then` names the layers searched after it."""

    semantic: Layer = Field(default=_SEMANTIC, description="Facts: what is so; every source, all kinds.")
    episodic: Layer = Field(default=_EPISODIC, description="What has a time: what happened, was said, or is due.")
    procedural: Layer = Field(default=_PROCEDURAL, description="Procedures: how something is done.")
    prospective: Layer = Field(default=_PROSPECTIVE, description="Tasks: what is still to be done.")
    graph: Layer = Field(default=_GRAPH, description="Links between people, things and facts.")
    meta: Layer = Field(default=_META, description="All that is known, for questions about what is known at all.")
    planning: Layer = Field(default=_PLANNING, description="Plans: what is intended.")

    def named(self, name: LayerName) -> Layer:
        """The layer of that name."""
        layer = getattr(self, name)
        assert isinstance(layer, Layer)
        return layer


class MergeWeights(Section):
    """How several layers' results become one order; the weights are of the composite score, a weighted mean."""

    strategy: Literal["weighted", "confidence_weighted"] = Field(
        default="weighted",
        description="weighted: by the composite score; confidence_weighted: with 0.5 confidence, 0.3 layer and "
        "0.2 recency, whatever the weights here.",
    )
    confidence: Share = Field(default=0.5, gt=0, description="Weight of the item's confidence (no unit).")
    layer: Share = Field(default=0.3, description="Weight of its layer's own weight (no unit).")
    recency: Share = Field(default=0.2, description="Weight of its recency (no unit).")
    score: Share = Field(default=0.0, description="Weight of its score among all layers' items.")

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the composite score, by part."""
        if self.strategy == "confidence_weighted":
            return dict(_SPECIFIED)
        weights: dict[str, float] = self.model_dump(exclude={"strategy"})
        return weights

    @property
    def name(self) -> MergeStrategy:
        """The part that weighs most, of equal ones the first, as they stand."""
        weights = self.weights
        return cast("MergeStrategy", f"{max(weights, key=weights.__getitem__)}_weighted")


class Cascade(Section):
    """Whether further layers of memory are searched while the confidence of the answer is too low."""

    enabled: bool = Field(default=False, description="Whether recall goes through layers, unless the query says.")
    first: LayerName | None = Field(default=None, description="The layer searched first; null: that of the class.")
    threshold: Share = Field(default=0.5, description="The confidence under which next layers are asked.")
    min_relevance: Share = Field(
        default=0.3, description="The relevance of a layer's first item under which the layer is not sure enough."
    )
    meta_memory: bool = Field(default=True, description="Whether feedback and use count in the confidence.")
    max_depth: int = Field(default=2, ge=0, le=6, description="How many times next layers may be asked.")
    over_fetch: int = Field(default=3, ge=1, le=10, description="How many bundles' worth a layer may bring.")
    timeout_ms: int = Field(
        default=800, ge=10, le=60_000, description="What further layers may take, in milliseconds."
    )
    merge: MergeWeights = Field(default=MergeWeights(), description="How several layers become one order.")
    layers: Layers = Field(default=Layers(), description="The layers, and what each of them searches.")


class NoAnswer(Section):
    """What an answer must have, or its bundle is empty. With 0 everywhere and no `greetings` all are answered."""

    min_probability: Share = Field(default=0.0, description="The probability of an answer at least.")
    greetings: bool = Field(default=False, description="Whether small talk gets no answer and no search.")
    min_confidence: Share = Field(default=0.0, description="The confidence of an answer at least; 0: any.")
    min_score: Share = Field(default=0.0, description="The score of the best item at least; 0: any.")

    @property
    def is_on(self) -> bool:
        """Whether there is a minimum at all."""
        return self.min_confidence > 0 or self.min_score > 0 or self.min_probability > 0
