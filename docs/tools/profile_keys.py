"""The reference page of the profile keys, made from the model: default, values and description of each key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from orion_recall.profile.model import profile_fields


def profile_markdown() -> str:
    """One line for each key; keys that all parts of the score or all layers have stand there once."""
    lines = [
        "# Keys of a profile",
        "",
        "Each key with its default and what it takes. `profiles/example.yaml` shows each in its place, and",
        "`contracts/profile.schema.json`, which editors read, has all of its description. `ranking.PART` is the",
        "weight of a part of the score, from 0 to 100 ([Score parts](score-parts.md)). Each layer of a cascade has",
        "the keys of `cascade.layers.LAYER`. A package that adds a source adds `NAME_top_k` and",
        "`fusion.weights.NAME` ([Write your own source](../how-to/write-a-source.md)).",
        "",
    ]
    fields = profile_fields()
    sections = {path[:-1] for path in fields}
    told = {_key(path): field for path, field in fields.items() if path not in sections and path[0] != "ranking"}
    for key, field in told.items():
        lines.append(f"- `{key}` ({_default(field)}; {_takes(field)}): {_first_sentence(field.description or '')}")
    return "\n".join(lines) + "\n"


def _key(path: Sequence[str]) -> str:
    is_layer = tuple(path[:2]) == ("cascade", "layers") and len(path) > 3
    return ".".join((*path[:2], "LAYER", *path[3:]) if is_layer else path)


def _first_sentence(text: str) -> str:
    sentence = re.split(r"(?<=[.!?])\s", " ".join(text.split()), maxsplit=1)[0]
    return sentence.replace(" (no unit)", "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    default: Any = field.get_default(call_default_factory=False)
    if isinstance(default, BaseModel):
        default = default.model_dump()
    return yaml.safe_dump(default, default_flow_style=True, width=1000).removesuffix("...\n").strip()


def _takes(field: FieldInfo) -> str:
    """The choices, or the kind of value with its bounds."""
    kind, bounds = _without_null(field.annotation)
    if get_origin(kind) is Literal:
        return ", ".join(str(choice) for choice in get_args(kind))
    words = {bool: "true, false", int: "whole number", float: "number", str: "text"}.get(kind)
    if words is None:
        words = "list" if get_origin(kind) is tuple else "keys"
    return " ".join([words, *_bounds([*field.metadata, *bounds])])


def _without_null(annotation: Any) -> tuple[Any, Sequence[Any]]:
    """The type of a value without null, and its bounds."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (kind for kind in get_args(annotation) if kind is not NoneType)
    if get_origin(annotation) is Annotated:
        kind, *told = get_args(annotation)
        return kind, [bound for one in told for bound in (one.metadata if isinstance(one, FieldInfo) else [one])]
    return annotation, ()


def _bounds(told: Sequence[object]) -> list[str]:
    words: list[str] = []
    for bound in told:
        match bound:
            case Ge(ge=least):
                words.append(f"from {least}")
            case Gt(gt=least):
                words.append(f"above {least}")
            case Le(le=most):
                words.append(f"to {most}")
            case Lt(lt=most):
                words.append(f"below {most}")
            case _:
                pass
    return words
