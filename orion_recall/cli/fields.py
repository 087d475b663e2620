"""Options of commands, made from the models of messages: one option a field, with its type and its description."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from orion_recall.cli.moments import MOMENT_HELP, moment

R = TypeVar("R")

# Of fields whose models have no description.
_HELP = {
    "tenant": "the tenant (default: ORION_DEFAULT_TENANT)",
    "session_id": "the session",
    "node_id": "the node",
    "user_id": "the user",
    "user": "the user, for scope user",
    "agent_id": "the agent",
    "run_id": "the run",
    "profile": "the profile to recall under (see `profiles list`)",
    "scope": "what may be searched",
    "max_tokens": "tokens of the rendered text at most",
    "min_score": "score below which nothing is handed over",
    "since": "not before",
    "until": "before; a day or period as a whole",
    "speaker": "who said it",
    "tags": "a tag",
    "kinds": "a kind, such as plan",
    "kind": "its kind, such as world or plan",
    "reason": "why, for the history",
    "erase": "remove the text from record and history, too",
}
_UNION = (typing.Union, types.UnionType)


def with_fields(
    parameter: str, model: type[BaseModel], *fields: str, **called: str
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Gives a command an option for each field of a message, in the place of the parameter.

    The parameter then gets the fields that were given, by their names. `called` are fields whose option has another
    name: `session_id="--session"`. Values are judged by the model, times are read by `with_times`.
    """
    options = {name: f"--{name.replace('_', '-')}" for name in fields} | called

    def wrap(command: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(command, eval_str=True)
        made = [_option(name, option, model.model_fields[name]) for name, option in options.items()]

        @functools.wraps(command)
        def call(**given: Any) -> R:
            found = {name: given.pop(name, None) for name in options}
            given[parameter] = {name: value for name, value in found.items() if value not in (None, (), [])}
            return command(**given)

        kept: list[inspect.Parameter] = []
        for one in signature.parameters.values():
            kept += made if one.name == parameter else [one]
        call.__signature__ = signature.replace(  # pyright: ignore[reportAttributeAccessIssue]
            parameters=[one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in kept]
        )
        call.__annotations__ = {one.name: one.annotation for one in kept} | {"return": signature.return_annotation}
        return call

    return wrap


def with_times(fields: Mapping[str, Any], *, timezone: str | None = None) -> dict[str, Any]:
    """The fields with `since`, `until` and `as_of` read as times; SettingsError names the option of a wrong one."""
    read = {
        name: moment(f"--{name.replace('_', '-')}", fields[name], timezone=timezone, end=name == "until")
        for name in ("since", "until", "as_of")
        if name in fields
    }
    return {**fields, **read}


def kind_of(field: FieldInfo) -> tuple[type, Sequence[str]]:
    """The type that one value of the field has, `list` for several, and what it may be where that is a choice."""
    return _kind_of(field.annotation)


def _kind_of(annotation: Any) -> tuple[type, Sequence[str]]:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _kind_of(typing.get_args(annotation)[0])
    if origin in _UNION:
        return _kind_of(next(one for one in typing.get_args(annotation) if one is not type(None)))
    if origin is typing.Literal:
        return str, typing.get_args(annotation)
    if origin in (tuple, list):
        return list, ()
    return (origin or annotation), ()


def _described(annotation: Any) -> str | None:
    for one in (annotation, *typing.get_args(annotation)):
        for part in getattr(one, "__metadata__", ()):
            if isinstance(part, FieldInfo) and part.description:
                return part.description
    return None


def _option(name: str, option: str, field: FieldInfo) -> inspect.Parameter:
    kind, choices = kind_of(field)
    told = (field.description or _described(field.annotation) or _HELP.get(name, name)).rstrip(".")
    told += f" ({MOMENT_HELP.rstrip('.')})" if kind is datetime else "; again for more" if kind is list else ""
    typed: Any = list[str] if kind is list else kind if kind in (int, float, bool) else str
    if kind is bool and field.default is None and "/" not in option:
        option += f"/--no-{option.removeprefix('--')}"
    info = typer.Option(
        option,
        help=f"{told[0].upper()}{told[1:]}{'' if told.endswith('.') else '.'}",
        metavar="|".join(choices) or None,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[typed | None, info]
    )
