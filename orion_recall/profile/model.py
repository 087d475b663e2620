"""One profile: its values, its strategies by class and shape of the question, its hash; and how two differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_serializer, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from orion_recall.profile.profile_values import ProfileValues
from orion_recall.profile.sections import CONFIG, Section
from orion_recall.values import QUERY_CLASSES, QUESTION_SHAPES, QueryClass, QuestionShape

KeyPath = tuple[str, ...]
"""A key's place in the file: ("fusion", "weights", "rdf"); () is the file itself."""

Values = TypeVar("Values", bound=BaseModel)


class OnlyWhatIsSet(Section):
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
