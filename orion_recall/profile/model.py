"""One profile: its values with bounds and descriptions, its strategies by class and shape, its hash."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_serializer, model_validator
from pydantic.fields import FieldInfo

from orion_recall.profile import sections as s
from orion_recall.scoring.parts import further_parts
from orion_recall.source_specs import MOST_TOP_K, by_name, further_sources, source_names, specs
from orion_recall.values import (
    LAYER_NAMES,
    QUERY_CLASSES,
    QUESTION_SHAPES,
    QueryClass,
    QuestionShape,
    ReaderInstructions,
    SourceName,
    Superseded,
)

Scope = Literal["session", "user", "global"]
Budget = Literal["low", "mid", "high"]
Caller = Annotated[str, Field(pattern=r"^[^=]+=[^=]+$", max_length=1024)]
TopK = Annotated[int, Field(ge=0, le=MOST_TOP_K)]

DEFAULT_HALF_LIFE_HOURS = 72.0
_DECAYS_AGREE = 0.05  # of the half-life: 0.01 an hour and "three days" are the same
CANDIDATES: dict[Budget, int] = {"low": 100, "mid": 300, "high": 1000}


class _ProfileKeys(s.Section):
    """The keys of every profile, those of the built-in sources among them."""

    profile: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$", description="Its name and version, as the file's.")
    description: str = Field(default="", max_length=1000, description="What the profile is for, in a sentence.")
    scope: Scope = Field(default="global", description="Whose memories are searched, unless the query says.")
    budget: Budget = Field(
        default="mid", description="How deep sources search: low 100, mid 300, high 1000 candidates."
    )
    vector_top_k: TopK = Field(description="Hits of the vector source that are taken first; 0 switches it off.")
    lexical_top_k: TopK | None = Field(
        default=None, description="Hits of the keyword source that are taken first; 0: off, null: as vector_top_k."
    )
    rdf_top_k: TopK = Field(description="Hits of the graph source that are taken first; 0 switches it off.")
    enable_sql_timeline: bool = Field(default=False, description="Whether the SQL timeline is searched.")
    sql_top_k: TopK = Field(default=8, description="Hits of the SQL timeline that are taken first; 0: off.")
    sql_since_minutes: int = Field(
        default=180, ge=1, le=5_256_000, description="How far back it looks, in minutes."
    )
    max_per_source: int = Field(
        ge=1,
        le=1000,
        description="Items of one source that are taken first; more of it only fill room that is left.",
    )
    max_total_items: int = Field(ge=1, le=1000, description="Items in a bundle, at most.")
    time_decay_half_life_hours: float | None = Field(
        default=None, gt=0, le=1_000_000, description="The age at which recency has halved, in hours; null: 72."
    )
    time_decay_lambda_per_hour: float | None = Field(
        default=None, gt=0, le=1_000, description="As a rate an hour: 0.001 is 29 days, 0.1 7 hours."
    )
    recency_floor: s.Share = Field(default=0.05, description="The recency an old memory keeps, from 0 to 1.")
    render_budget_tokens: int = Field(
        ge=20, le=1_000_000, description="The rendered text at most, in cl100k tokens: 20 are one short line."
    )
    enable_query_expansion: bool = Field(default=True, description="Whether terms and aliases join the search.")
    over_budget: Literal["skip", "stop"] = Field(
        default="skip", description="For an item over the token budget: `skip` tries the next, `stop` ends there."
    )
    reader_instructions: ReaderInstructions = Field(
        default="keep", description="Memories that instruct their reader: `keep`, `flag`, `down` (last), `hold`."
    )
    snippet_tokens: int = Field(default=48, ge=8, le=512, description="The window shown of a memory, in tokens.")
    later_snippet_tokens: int = Field(default=512, ge=8, le=512, description="The same after the first two.")
    min_similarity: s.Share = Field(default=0.0, description="The cosine similarity of a hit at least (0 to 1).")
    min_score: s.Share = Field(default=0.0, description="The final score under which an item is dropped (0 to 1).")
    rank_pool: int = Field(default=64, ge=10, le=500, description="How many fused candidates are ranked in full.")
    max_repetition: s.Share = Field(
        default=1.0, description="The share of its words that an earlier item may have."
    )
    source_timeout_ms: int = Field(default=800, ge=10, le=60_000, description="A source's time, in milliseconds.")
    source_retries: int = Field(default=1, ge=0, le=5, description="Further tries after a transient error.")
    fusion: s.Fusion = Field(default=s.Fusion(), description="How the sources' lists become one list.")
    ranking: s.RankingWeights = Field(default=s.RankingWeights(), description="Weights of the final score's parts.")
    rerank: s.Rerank = Field(default=s.Rerank(), description="Whether and how a reranker judges the best.")
    time: s.TimeInQuestions = Field(default=s.TimeInQuestions(), description="How times in questions are used.")
    expansion: s.Expansion = Field(default=s.Expansion(), description="Further words of the keyword source.")
    graph: s.GraphWalk = Field(default=s.GraphWalk(), description="How far the graph source walks.")
    callers: tuple[Caller, ...] = Field(
        default=(), strict=False, description="The speaker that a query's `options.user` is, as `[u-17=Ana Miles]`."
    )
    cascade: s.Cascade = Field(default=s.Cascade(), description="Whether further layers are searched when unsure.")
    unsure_below: s.Share = Field(
        default=0.0, description="The probability that anything answers under which the reply is unsure; 0: never."
    )
    unsure_items: int = Field(default=3, ge=1, le=1000, description="Items of an unsure reply, at most.")
    when_unsure: Literal["note", "plain"] = Field(
        default="plain", description="`note`: the rendered text of an unsure reply begins with a line that says so."
    )
    no_answer: s.NoAnswer = Field(default=s.NoAnswer(), description="What an answer must have, or it is withheld.")
    superseded: Superseded = Field(
        default="mark",
        description="A memory with a stated successor stands after it: `mark` says until when it held, `omit` "
        "leaves it out but for questions about an earlier state, `keep` moves and marks nothing.",
    )
    render: s.Render = Field(default=s.Render(), description="What a bullet of the rendered text shows.")
    decisions: s.DecisionsKept = Field(default=s.DecisionsKept(), description="Which decisions keep candidates.")
    shadow: s.Shadow = Field(default=s.Shadow(), description="A profile that recalls a share of the queries, too.")
    canary: s.Canary = Field(default=s.Canary(), description="A profile that answers a share of the sessions.")

    @model_validator(mode="after")
    def _something_can_be_found(self) -> Self:
        if not self.sources_on:
            further = (spec.top_k_key for spec in further_sources())
            *first, last = ("vector_top_k", "lexical_top_k", "rdf_top_k", *further)
            on = f"set one of {', '.join(first)} and {last} above 0, or enable_sql_timeline to true"
            raise s.problem("vector_top_k", f"no source is on: {on}")
        searched = [("fusion.weights", "that is on", self.sources_on)]
        for name in LAYER_NAMES if self.cascade.enabled else ():
            if sources := self.cascade.layers.named(name).sources:
                layer = f"cascade.layers.{name}.sources", f"of the layer {name}", self._not_off(sources)
                searched.append(layer)
        for key, which, sources in searched:
            if not sources:
                raise s.problem(key, f"every source {which} is off in this profile")
            if not any(getattr(self.fusion.weights, source) for source in sources):
                raise s.problem(key, f"every source {which} ({', '.join(sources)}) has the fusion weight 0")
        return self

    @model_validator(mode="after")
    def _decay_is_told_once(self) -> Self:
        given, rate = self.time_decay_half_life_hours, self.time_decay_lambda_per_hour
        if given is None or rate is None:
            return self
        if abs(given - self.half_life_hours) > given * _DECAYS_AGREE:
            raise s.problem(
                "time_decay_lambda_per_hour",
                f"a rate of {rate:g} an hour halves in {self.half_life_hours:.4g} hours, and "
                f"time_decay_half_life_hours says {given:g}: give one of the two (null takes the other one back)",
            )
        return self

    @model_validator(mode="after")
    def _relevance_is_not_outvoted(self) -> Self:
        share = s.relevance_share(self.weights(reranked=True))
        if share < s.MIN_RELEVANCE_SHARE - s.ROUNDING:
            counted = "with `rerank.weight`" if self.rerank.enabled else "without a reranker"
            raise s.problem(
                "ranking.recency",
                f"all weights but `recency` together ({counted}) are {share:.4g} of the weights and must be at "
                f"least {s.MIN_RELEVANCE_SHARE}: recency must not outvote relevance",
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
        weights: dict[str, float] = {**s.section_values(self.ranking)}
        if time_decides:
            weights["time"] = sum(weights.values()) - weights["time"]
        if not self.rerank.enabled:
            return weights
        if reranked:
            return weights | {"rerank": self.rerank.weight}
        if s.relevance_share(weights) < s.MIN_RELEVANCE_SHARE - s.ROUNDING:
            relevance = sum(weights.values()) - weights["recency"]
            weights["recency"] = relevance * (1 / s.MIN_RELEVANCE_SHARE - 1)
        return weights

    @property
    def candidates(self) -> int:
        """How many candidates each source searches for."""
        return CANDIDATES[self.budget]

    def top_k(self, name: SourceName) -> int:
        """How many hits of the source are taken first, where it is searched."""
        given: int | None = getattr(self, by_name()[name].top_k_key)
        return self.vector_top_k if given is None else given  # only `lexical_top_k` may be null

    def searches(self, name: SourceName) -> bool:
        """Whether the source is searched. The timeline has a switch of its own besides."""
        return self.top_k(name) > 0 and (name != "sql_timeline" or self.enable_sql_timeline)

    @property
    def sources_on(self) -> tuple[SourceName, ...]:
        """The sources that this profile searches."""
        return tuple(name for name in source_names() if self.searches(name))

    def searching(self, names: Collection[SourceName], top_k: int) -> Self:
        """This profile with these sources on, each with so many hits, and all others off.

        A source of another package that this profile does not search stays off: it may not be set up.
        """
        on = self._not_off(names)
        values: dict[str, Any] = {spec.top_k_key: top_k if spec.name in on else 0 for spec in specs()}
        values |= {"enable_sql_timeline": "sql_timeline" in on, "sql_top_k": top_k}
        return self.model_copy(update=values)

    def _not_off(self, names: Iterable[SourceName]) -> tuple[SourceName, ...]:
        off = {spec.name for spec in further_sources() if not self.searches(spec.name)}
        return tuple(name for name in names if name not in off)


_HITS = "Hits of {} that are taken first; 0 switches it off."
_OF_PACKAGES: dict[str, Any] = {
    spec.top_k_key: (TopK, Field(default=spec.top_k, description=_HITS.format(spec.title)))
    for spec in further_sources()
}
_WITH_PACKAGES: type[_ProfileKeys] = create_model("ProfileKeys", __base__=_ProfileKeys, **_OF_PACKAGES)


class ProfileValues(_WITH_PACKAGES):
    """The values of a profile: sources, search depth, ranking, and size of the rendered text."""


KeyPath = tuple[str, ...]
"""A key's place in the file: ("fusion", "weights", "rdf"); () is the file itself."""

Values = TypeVar("Values", bound=BaseModel)


class OnlyWhatIsSet(s.Section):
    """A model that serialises only the values that were set."""

    @model_serializer(mode="plain")
    def _set(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return {name: _plain(value) for name, value in given.items()}


class Overrides(OnlyWhatIsSet):
    """Values that replace those of a profile or of one of its sections. Only keys in `model_fields_set` count."""

    def applied_to(self, values: Values) -> Values:
        """The values with these overrides; the same object where there are none.

        Nothing is checked: a profile checks each of its strategies when it is made.
        """
        changed: dict[str, Any] = {}
        for name in self.model_fields_set:
            value = getattr(self, name)
            changed[name] = value.applied_to(getattr(values, name)) if isinstance(value, Overrides) else value
        return values.model_copy(update=changed) if changed else values


def overrides_of(
    model: type[BaseModel], name: str, *, leave_out: Collection[tuple[str, ...]] = ()
) -> type[Overrides]:
    """A model with the model's keys, bounds and descriptions, sections included, and none of them required.

    `leave_out` are paths of keys. Checks across keys are left out: some of the keys may be in the profile only.
    """
    fields: dict[str, Any] = {}
    for key, field in model.model_fields.items():
        if (key,) in leave_out:
            continue
        optional = copy(field)
        below = field.annotation
        if isinstance(below, type) and issubclass(below, BaseModel):
            inside = [path[1:] for path in leave_out if path[0] == key]
            section = overrides_of(below, f"{name}{below.__name__}", leave_out=inside)
            optional.annotation, optional.default = section, section()
        else:
            # The default is never used, and left out of the JSON Schema.
            optional.default, optional.json_schema_extra = None, _without_default
        optional.default_factory = None
        fields[key] = (cast("Any", optional.annotation), optional)
    return create_model(name, __base__=Overrides, __doc__=f"{name}: what differs.", **fields)


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _plain(value: object) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else value


# Keys that are needed before the class of a question is known.
_NOT_BY_CLASS: tuple[KeyPath, ...] = tuple(
    tuple(key.split("."))
    for key in "callers profile description scope enable_query_expansion decisions shadow canary "
    "time.hemisphere time.day_first".split()
)
if TYPE_CHECKING:
    Strategy = Overrides
else:
    Strategy = overrides_of(ProfileValues, "Strategy", leave_out=_NOT_BY_CLASS)


class Strategies(OnlyWhatIsSet):
    """Overrides by the class of the question, and by its shape."""

    factual: Strategy = Field(default=Strategy(), description="For questions that no other class fits.")
    temporal: Strategy = Field(default=Strategy(), description="For questions that ask for or name a time.")
    relational: Strategy = Field(default=Strategy(), description="For questions of who is what to whom.")
    procedural: Strategy = Field(default=Strategy(), description="For questions of how something is done.")
    planning: Strategy = Field(default=Strategy(), description="For questions of what would best be done.")
    prospective: Strategy = Field(default=Strategy(), description="For questions of what is still to be done.")
    meta: Strategy = Field(default=Strategy(), description="For questions of what is known at all.")
    recap: Strategy = Field(default=Strategy(), description="For recaps of a period, on top of the class.")
    list: Strategy = Field(default=Strategy(), description="For lists of all of a kind, on top of the class.")

    def of(self, name: QueryClass | QuestionShape) -> Strategy:
        """The strategy of a class or shape of questions; it may be empty."""
        strategy = getattr(self, name)
        assert isinstance(strategy, Overrides)
        return strategy


class Profile(ProfileValues):
    """A profile: how a recall is done, and how it differs by the class of the question."""

    model_config = s.CONFIG | ConfigDict(title="orion-recall profile")

    strategies: Strategies = Field(
        default=Strategies(),
        description="Values that questions of a class get instead of those above, by class: "
        + ", ".join(QUERY_CLASSES)
        + "; and those of a shape, which win: "
        + ", ".join(QUESTION_SHAPES)
        + ".",
    )

    @model_validator(mode="after")
    def _every_strategy_is_a_profile(self) -> Self:
        given = self.strategies.model_fields_set
        classes: list[QueryClass] = [name for name in QUERY_CLASSES if name in given]
        shapes: list[QuestionShape] = [name for name in QUESTION_SHAPES if name in given]
        one: list[tuple[QueryClass | QuestionShape, ...]] = [(name,) for name in (*classes, *shapes)]
        for names in (*one, *product(classes, shapes)):
            values = self._with(*names).model_dump(exclude={"strategies"})
            try:
                ProfileValues.model_validate(values)
            except ValidationError as error:
                (first, *_) = error.errors(include_url=False)
                key = (*map(str, first["loc"]), *filter(None, [str(first.get("ctx", {}).get("key", ""))]))
                where = ".".join(("strategies", names[-1], *key))
                raise s.problem(where, f"for {' '.join(names)} questions {first['msg']}") from error
        return self

    def for_class(self, query_class: QueryClass, shape: QuestionShape | None = None) -> Profile:
        """The profile that questions of the class and shape are recalled by: this one without strategies."""
        return self._with(query_class) if shape is None else self._with(query_class, shape)

    def strategy_for(self, query_class: QueryClass, shape: QuestionShape | None = None) -> str | None:
        """The class, the shape, or both as `temporal+list`, as far as there are strategies for them."""
        names = (query_class,) if shape is None else (query_class, shape)
        return "+".join(name for name in names if self.strategies.of(name).model_fields_set) or None

    def _with(self, *names: QueryClass | QuestionShape) -> Profile:
        """This profile with the strategies of these names, the later over the earlier."""
        profile = self
        for name in names:
            profile = self.strategies.of(name).applied_to(profile)
        return profile

    @property
    def content_hash(self) -> str:
        """16 hex digits of the values: comments, order and defaults written out do not change it.

        Nor do sources and score parts of other packages that the profile does not use, or which it has not.
        Computed on each call: a cached one would go stale in `model_copy(update=...)`.
        """
        values = self.model_dump(mode="json", exclude={"time_decay_lambda_per_hour"})
        values["time_decay_half_life_hours"] = self.half_life_hours  # however it is told
        self._leave_out_unused(values)
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def _leave_out_unused(self, values: dict[str, Any]) -> None:
        each = [self.strategies.of(name) for name in (*QUERY_CLASSES, *QUESTION_SHAPES)]
        for spec in further_sources():
            if self.searches(spec.name) or any(spec.top_k_key in one.model_fields_set for one in each):
                continue
            del values[spec.top_k_key], values["fusion"]["weights"][spec.name]
            for layer in values["cascade"]["layers"].values():
                layer["sources"] = [name for name in layer["sources"] if name != spec.name]
        for part in further_parts():
            if not values["ranking"][part.name]:
                del values["ranking"][part.name]


def profile_fields(
    model: type[BaseModel] = Profile, path: KeyPath = (), *, with_overrides: bool = False
) -> dict[KeyPath, FieldInfo]:
    """Every key of a profile by its path, parents before children.

    Keys below one that overrides others (`strategies`) are left out, unless wanted.
    """
    fields: dict[KeyPath, FieldInfo] = {}
    for name, field in model.model_fields.items():
        fields[*path, name] = field
        below = field.annotation
        if not isinstance(below, type) or not issubclass(below, BaseModel):
            continue
        if with_overrides or not issubclass(below, OnlyWhatIsSet):
            fields.update(profile_fields(below, (*path, name), with_overrides=with_overrides))
    return fields


ProfileValue = str | int | float | bool | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDifference:
    """One key whose value differs between two profiles."""

    key: str
    left: ProfileValue
    right: ProfileValue


def diff_profiles(a: Profile, b: Profile) -> list[ProfileDifference]:
    """The values that differ, by dotted key, in the model's order; the name is one of them."""
    left, right = _flat(a.model_dump()), _flat(b.model_dump())
    return [
        ProfileDifference(key=key, left=left.get(key), right=right.get(key))
        for key in dict.fromkeys((*left, *right))
        if left.get(key) != right.get(key)
    ]


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, ProfileValue]:
    flat: dict[str, ProfileValue] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(cast("dict[str, Any]", value), f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
