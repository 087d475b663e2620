"""The reference page of the profile keys, made from the model: default, values and description of each key."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from orion_recall.profile.model import profile_fields


def profile_markdown() -> str:
    """The table as a document."""
    lines = [
        "# Keys of a profile",
        "",
        "Made by `make contracts` from `orion_recall/profile/`; `profiles/example.yaml` shows each in its place.",
        "",
        "| key | default | takes | what it does |",
        "|---|---|---|---|",
    ]
    fields = profile_fields()
    sections = {path[:-1] for path in fields}
    for path, field in fields.items():
        if path in sections:
            continue
        cells = (f"`{'.'.join(path)}`", _default(field), _takes(field), field.description or "")
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


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
