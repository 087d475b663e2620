"""Overrides: profile values for some questions only; the same keys, each optional."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from typing import Any, TypeVar, cast

from pydantic import BaseModel, create_model, model_serializer

from orion_recall.profile.sections import CONFIG

Values = TypeVar("Values", bound=BaseModel)


class OnlyWhatIsSet(BaseModel):
    """A model that serialises only the values that were set."""

    model_config = CONFIG

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
