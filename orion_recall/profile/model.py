"""One profile: its values, its strategies by the class and shape of the question, and its content hash."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from orion_recall.profile.profile_values import ProfileValues
from orion_recall.profile.sections import CONFIG
from orion_recall.profile.strategies import OnlyWhatIsSet, Overrides, overrides_of
from orion_recall.values import QUERY_CLASSES, QUESTION_SHAPES, QueryClass, QuestionShape

KeyPath = tuple[str, ...]
"""A key's place in the file: ("fusion", "weights", "rdf"); () is the file itself."""

# Keys that are needed before the class of a question is known.
_NOT_BY_CLASS: tuple[KeyPath, ...] = (
    ("callers",),
    ("profile",),
    ("description",),
    ("scope",),
    ("enable_query_expansion",),
    ("decisions",),
    ("shadow",),
    ("canary",),
    ("time", "hemisphere"),
    ("time", "day_first"),
)
if TYPE_CHECKING:
    Strategy = Overrides
else:
    Strategy = overrides_of(ProfileValues, "Strategy", leave_out=_NOT_BY_CLASS)


class Strategies(OnlyWhatIsSet):
    """Overrides by the class of the question, and by its shape."""

    model_config = CONFIG

    factual: Strategy = Field(default=Strategy(), description="For questions that no other class fits.")
    temporal: Strategy = Field(default=Strategy(), description="For questions that ask for or name a time.")
    relational: Strategy = Field(default=Strategy(), description="For questions of who is what to whom.")
    procedural: Strategy = Field(default=Strategy(), description="For questions of how something is done.")
    planning: Strategy = Field(default=Strategy(), description="For questions of what would best be done.")
    prospective: Strategy = Field(default=Strategy(), description="For questions of what is still to be done.")
    meta: Strategy = Field(default=Strategy(), description="For questions of what is known at all.")
    recap: Strategy = Field(
        default=Strategy(), description="For recaps of a period, on top of what their class gets."
    )
    list: Strategy = Field(
        default=Strategy(), description="For lists of all of a kind, on top of what their class gets."
    )

    def of(self, name: QueryClass | QuestionShape) -> Strategy:
        """The strategy of a class or shape of questions; it may be empty."""
        strategy = getattr(self, name)
        assert isinstance(strategy, Overrides)
        return strategy


class Profile(ProfileValues):
    """A profile: how a recall is done, and how it differs by the class of the question."""

    model_config = CONFIG | ConfigDict(title="orion-recall profile")

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
        chosen: list[tuple[QueryClass | QuestionShape, ...]] = [
            *((name,) for name in classes),
            *((shape,) for shape in shapes),
            *((name, shape) for name in classes for shape in shapes),
        ]
        for names in chosen:
            values = self._with(*names).model_dump(exclude={"strategies"})
            try:
                ProfileValues.model_validate(values)
            except ValidationError as error:
                (first, *_) = error.errors(include_url=False)
                key = (*map(str, first["loc"]), *filter(None, [str(first.get("ctx", {}).get("key", ""))]))
                where = ".".join(("strategies", names[-1], *key))
                raise PydanticCustomError(
                    "strategy",
                    "for {name} questions {problem}",
                    {"name": " ".join(names), "problem": first["msg"], "key": where},
                ) from error
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

        Computed on each call: a cached one would go stale in `model_copy(update=...)`.
        """
        values = self.model_dump(mode="json", exclude={"time_decay_lambda_per_hour"})
        values["time_decay_half_life_hours"] = self.half_life_hours  # however it is told
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def profile_json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that editors check and complete a profile's YAML with."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Profile.model_json_schema()}


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
