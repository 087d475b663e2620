"""The profile sections `cascade` and `no_answer`: further layers, or no answer, at low confidence."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, Field

from orion_recall.contracts.confidence import MergeStrategy
from orion_recall.profile.sections import CONFIG, Share
from orion_recall.values import SourceName

LayerName = Literal["semantic", "episodic", "procedural", "prospective", "graph", "meta", "planning"]
LAYER_NAMES: tuple[LayerName, ...] = get_args(LayerName)
# The composite score of the specification.
_SPECIFIED = {"confidence": 0.5, "layer": 0.3, "recency": 0.2, "score": 0.0}
_STRATEGIES: dict[str, MergeStrategy] = {
    "confidence": "confidence_weighted",
    "layer": "layer_weighted",
    "recency": "recency_weighted",
    "score": "score_weighted",
}

_Words = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=512)], ...], Field(strict=False, max_length=64)
]
_Sources = Annotated[tuple[SourceName, ...], Field(strict=False, max_length=4)]
_Layers = Annotated[tuple[LayerName, ...], Field(strict=False, max_length=7)]


class Layer(BaseModel):
    """One layer of a cascade: the memories it searches, its weight, and the layers after it."""

    model_config = CONFIG

    sources: _Sources = Field(
        default=(), description="The sources it searches; an empty list is those that the profile has on."
    )
    kinds: _Words = Field(default=(), description="The kinds of memories it searches; an empty list is all.")
    tags: _Words = Field(
        default=(), description="The tags of which a memory must have one; an empty list asks for none."
    )
    scope: Literal["session", "user", "global"] | None = Field(
        default=None,
        description="Whose memories it searches, never wider than the query asks for; null is as the profile.",
    )
    weight: Share = Field(default=0.8, description="How much it counts when layers are merged, from 0 to 1.")
    then: _Layers = Field(
        default=(), description="The layers that are asked when it is not sure enough, in order of precedence."
    )


def _layer(sources: str, kinds: str, weight: float, then: str) -> Layer:
    return Layer.model_validate(
        {"sources": sources.split(), "kinds": kinds.split(), "weight": weight, "then": then.split()}
    )


# What is asked without any sign of its class may be of any kind: a hybrid search over all of them.
_SEMANTIC = _layer("", "", 0.9, "episodic graph procedural")
_EPISODIC = _layer(
    "vector lexical sql_timeline", "experience observation opinion plan task", 0.85, "semantic graph"
)
_PROCEDURAL = _layer("vector lexical", "procedure", 0.8, "episodic semantic")
_PROSPECTIVE = _layer("vector lexical", "task", 0.7, "procedural semantic")
_GRAPH = _layer("rdf", "", 0.75, "semantic episodic")
_META = _layer("", "", 0.6, "semantic graph")
_PLANNING = _layer("vector lexical", "plan", 0.7, "semantic procedural")


class Layers(BaseModel):
    """The layers of memory. Each layer's `then` names the layers searched after it."""

    model_config = CONFIG

    semantic: Layer = Field(default=_SEMANTIC, description="Facts: what is so; every source, all kinds.")
    episodic: Layer = Field(
        default=_EPISODIC,
        description="What has a time: what happened, was seen, said or decided, or is due; and what just happened.",
    )
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


class MergeWeights(BaseModel):
    """How several layers' results become one order; the weights are of the composite score, a weighted mean."""

    model_config = CONFIG

    strategy: Literal["weighted", "confidence_weighted"] = Field(
        default="weighted",
        description="weighted: by the composite score; confidence_weighted: with 0.5 confidence, 0.3 layer and "
        "0.2 recency, whatever the weights here.",
    )
    confidence: Share = Field(default=0.5, gt=0, description="Weight of the item's confidence (no unit).")
    layer: Share = Field(default=0.3, description="Weight of its layer's own weight (no unit).")
    recency: Share = Field(default=0.2, description="Weight of its recency (no unit).")
    score: Share = Field(
        default=0.0, description="Weight of its score when all layers' items are ranked as one pool (no unit)."
    )

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
        return _STRATEGIES[max(weights, key=weights.__getitem__)]


class Cascade(BaseModel):
    """Whether further layers of memory are searched while the confidence of the answer is too low."""

    model_config = CONFIG

    enabled: bool = Field(default=False, description="Whether recall goes through layers, unless the query says.")
    first: LayerName | None = Field(
        default=None, description="The layer that is searched first; null is that of the question's class."
    )
    threshold: Share = Field(
        default=0.5, description="The confidence under which the next layers are asked, from 0 to 1."
    )
    min_relevance: Share = Field(
        default=0.3,
        description="The semantic relevance of a layer's first item under which the layer is not sure enough, "
        "whatever its confidence, from 0 to 1.",
    )
    meta_memory: bool = Field(
        default=True,
        description="Whether feedback on memories and how often they were in answers count in their confidence. "
        "They are read from Postgres, for the first items of each layer.",
    )
    max_depth: int = Field(
        default=2, ge=0, le=6, description="How many times the next layers may be asked after the first."
    )
    over_fetch: int = Field(
        default=3, ge=1, le=10, description="How many times the bundle's items each layer may bring, 300 at most."
    )
    timeout_ms: int = Field(
        default=800,
        ge=10,
        le=60_000,
        description="How long all layers after the first may take together, in milliseconds.",
    )
    merge: MergeWeights = Field(
        default=MergeWeights(), description="How what several layers found becomes one order."
    )
    layers: Layers = Field(default=Layers(), description="The layers, and what each of them searches.")


class NoAnswer(BaseModel):
    """What an answer must have, or its bundle is empty. With 0 everywhere and no `greetings` all are answered."""

    model_config = CONFIG

    min_probability: Share = Field(
        default=0.0,
        description="The probability that anything found answers the question, under which no answer is given; "
        "0: any will do.",
    )
    greetings: bool = Field(
        default=False,
        description="Whether greetings, thanks and other small talk get no answer: nothing is searched for them.",
    )
    min_confidence: Share = Field(
        default=0.0, description="The confidence of the answer under which none is given; 0: any will do."
    )
    min_score: Share = Field(
        default=0.0, description="The score of the best item under which no answer is given; 0: any will do."
    )

    @property
    def is_on(self) -> bool:
        """Whether there is a minimum at all."""
        return self.min_confidence > 0 or self.min_score > 0 or self.min_probability > 0
