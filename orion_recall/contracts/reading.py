"""Message validation: lenient in names, strict in types, with errors that name the field."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from reprlib import Repr
from typing import Any, TypeVar, cast, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo

from orion_recall.errors import InvalidMessage

M = TypeVar("M", bound=BaseModel)

# An error goes into a reply, a decision, a dead letter and the log.
_MOST_PROBLEMS, _MOST_PATH, _MOST_SAID, _SHORT = 8, 200, 400, 60
# Python writes no longer number as digits.
_MOST_BITS = 4096


def read_message(model: type[M], data: object, where: str) -> M:
    """The validated message; else InvalidMessage that names every offending field under `where`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidMessage(
            describe(error, where), without_values=describe(error, where, with_values=False)
        ) from error


def describe(error: ValidationError, where: str = "", *, with_values: bool = True) -> str:
    """A validation error as one line: `payload.verb: Input should be a valid string (got 7)`."""
    parts: list[str] = []
    for problem in error.errors(include_url=False)[:_MOST_PROBLEMS]:
        path = ".".join(_cut(str(step)) for step in (where, *problem["loc"]) if step != "")[:_MOST_PATH]
        shown = with_values and problem["type"] != "missing"
        given = f" (got {_cut(_SHORT_VALUES.repr(problem['input']))})" if shown else ""
        told = f"{problem['msg'].removeprefix('Value error, ')[:_MOST_SAID]}{given}"
        parts.append(f"{path}: {told}" if path else told)
    return "; ".join(parts)


class _Short(Repr):
    """Values as Python writes them, shortened; no more of a large one is written."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _SHORT
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > _MOST_BITS:
            return f"a number of {x.bit_length()} bits"
        return super().repr_int(x, level)


_SHORT_VALUES = _Short()


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 3]}..."


def count_unknown(model: type[BaseModel], data: Mapping[str, object]) -> int:
    """The number of fields of `data`, nested models included, that the contract does not know."""
    known = known_fields(model)
    unknown = 0
    for key, value in data.items():
        if key not in known:
            unknown += 1
        elif isinstance(value, dict) and (nested := known[key]) is not None:
            unknown += count_unknown(nested, cast("dict[str, object]", value))
    return unknown


def refuse_unknown(model: type[BaseModel], data: Mapping[str, object], where: str) -> None:
    """InvalidMessage for a field of `data`, at any depth, that the contract does not know. For messages we send."""
    known = known_fields(model)
    refuse_unknown_names(data, known, where)
    for name, value in data.items():
        nested = known[name]
        parts = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
        for part in parts:
            if nested is not None and isinstance(part, Mapping):
                refuse_unknown(nested, cast("Mapping[str, object]", part), f"{where}.{name}")


def refuse_unknown_names(names: Iterable[object], known: Collection[str], where: str) -> None:
    """InvalidMessage for the first unknown name, with the nearest known one."""
    for name in names:
        if name not in known:
            raise InvalidMessage(f"{where}.{str(name)[:_SHORT]}: there is no such field; {nearest(name, known)}")


def nearest(name: object, known: Collection[str]) -> str:
    """Advice about an unknown name: `did you mean tenant?`, or all known names where none is near."""
    near = get_close_matches(str(name), known, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


@cache
def known_fields(model: type[BaseModel]) -> Mapping[str, type[BaseModel] | None]:
    """Every input name of a field, with the model nested in it."""
    return {
        alias: _nested_model(info)
        for name, info in model.model_fields.items()
        for alias in _input_names(name, info)
    }


def _input_names(name: str, info: FieldInfo) -> list[str]:
    if isinstance(info.validation_alias, AliasChoices):
        return [str(choice) for choice in info.validation_alias.choices]
    return [info.alias or name]


def _nested_model(info: FieldInfo) -> type[BaseModel] | None:
    stack: list[Any] = [info.annotation]
    while stack:
        annotation = stack.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        if get_origin(annotation) is not dict:  # a mapping's keys are data, not fields
            stack.extend(get_args(annotation))
    return None
