"""Options of commands: made from the models of messages; and times: yesterday, 3 days ago, 30d, 2026-11-20."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from orion_recall.errors import SettingsError
from orion_recall.text.zones import time_zone
from orion_recall.when.times import times

R = TypeVar("R")

MOMENT_HELP = "yesterday, 3 days ago, 30d, 2026-11-20, 2026-11-20T14:30Z."
Zone = Annotated[
    str | None,
    typer.Option(
        "--timezone", help="Zone of days and times given without one: Europe/Berlin, +02:00 (default: UTC)."
    ),
]

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


def kind_of(field: FieldInfo) -> tuple[type, Sequence[str]]:
    """The type that one value of the field has, `list` for several, and what it may be where that is a choice."""
    annotation: Any = field.annotation
    while (origin := typing.get_origin(annotation)) in (Annotated, typing.Union, types.UnionType):
        annotation = next(one for one in typing.get_args(annotation) if one is not type(None))
    if origin is typing.Literal:
        return str, typing.get_args(annotation)
    return (list, ()) if origin in (tuple, list) else (origin or annotation, ())


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
    info = typer.Option(option, help=f"{told[0].upper()}{told[1:]}.", metavar="|".join(choices) or None)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[typed | None, info]
    )


def with_times(fields: Mapping[str, Any], *, timezone: str | None = None) -> dict[str, Any]:
    """The fields with `since`, `until` and `as_of` read as times; SettingsError names the option of a wrong one."""
    read = {
        name: moment(f"--{name.replace('_', '-')}", fields[name], timezone=timezone, end=name == "until")
        for name in ("since", "until", "as_of")
        if name in fields
    }
    return {**fields, **read}


_SHORT = re.compile(r"(\d{1,9})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DATED = re.compile(r"\d{4}-\d\d")
_LIKE_A_DATE = re.compile(r"\d{4}-?(?:W|\d\d-?\d\d(?:T|$)|\d\d-)")
_DAY_IN_A_ZONE = re.compile(r"\d{4}-\d\d-\d\d(?:[+-]\d\d(?::?\d\d)?|[Zz])")
_EXAMPLES = (
    "write a day (2026-11-20, yesterday, last monday), a time (2026-11-20T14:30, 2026-11-20T14:30Z), or how long "
    "ago (3 days ago, 12h, 30d, 2w, PT2H)"
)
_DURATION = TypeAdapter(timedelta)


def moment(
    option: str, text: str | None, *, timezone: str | None = None, end: bool = False, now: datetime | None = None
) -> datetime | None:
    """The time that is meant, with its zone. None for None; SettingsError that names `option` for anything else.

    A day or a period (yesterday, 3 days ago, last week) is its beginning, with `end` its end. What has no zone is
    in `timezone`, an IANA name or an offset; else it is UTC.
    """
    if text is None:
        return None
    try:
        zone: tzinfo = UTC if timezone is None else time_zone(timezone)
    except ValueError as error:
        raise SettingsError(f"--timezone: {timezone!r} is {error}") from None
    here = (now or datetime.now(UTC)).astimezone(zone)
    said = " ".join(text.split())
    try:
        at = _before(said.lower(), here) or _exact(said, zone) or _named(said, here, end=end)
        if at is None:
            datetime.fromisoformat(said)  # says why it is none
            # Never None: to whoever asked, that is no limit at all.
            raise ValueError("it is written in another way than here, or beyond the calendar")
        return at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        # What looks like a time, and is not quite one, is told why.
        why = f" ({error})" if _LIKE_A_DATE.match(said) else ""
        raise SettingsError(f"{option}: {text!r} is no time{why}; {_EXAMPLES}") from None


def _before(text: str, now: datetime) -> datetime | None:
    """So long before now: 30d, PT2H. Elapsed time: a day in which the clocks change is no other."""
    if text == "now":
        return now
    if short := _SHORT.fullmatch(text):
        return now.astimezone(UTC) - timedelta(**{_UNITS[short[2]]: int(short[1])})
    if text.startswith("p") and len(text) > 1 and text[1] in "t0123456789":
        return now.astimezone(UTC) - _DURATION.validate_python(text.upper())
    return None


def _named(text: str, now: datetime, *, end: bool) -> datetime | None:
    named = times(text, now).intervals
    if len(named) != 1 or named[0].words.casefold() != text.casefold():
        return None
    of = named[0].end if end and named[0].end is not None else named[0].start
    return None if of is None else datetime.fromtimestamp(of, UTC)


def _exact(text: str, zone: tzinfo) -> datetime | None:
    if not _DATED.match(text) or len(text) <= len("2026-11-20"):
        return None
    if _DAY_IN_A_ZONE.fullmatch(text):  # Python would take "+02:00" for two o'clock
        raise ValueError("a day has no zone of its own: write 2026-11-20T00:00+02:00, or --timezone")
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=zone)
