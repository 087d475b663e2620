"""The reference page of all commands, made from the program itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import cleandoc
from typing import Any

from orion_recall.cli.main import COMMANDS, load

_INTRODUCTION = """\
# Commands

Every command has `--help`; most have `--json`, which prints one JSON document on standard output. Notes and errors
go to standard error. Exit codes: 0 done; 1 it failed, or was not found; 2 wrong usage or settings; 3 everything is
stored, but the index or the graph does not move (`import` alone); 130 interrupted.
"""


def commands_page() -> str:
    """Every command and subcommand with its arguments and options, as Markdown."""
    parts = [_INTRODUCTION]
    for name in COMMANDS:
        for path, command in _walk(f"orion-recall {name}", load(name)):
            parts.append(_section(path, command))
    return "\n".join(parts)


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The command and all below it, each with the words that call it."""
    yield path, command
    below: Mapping[str, Any] = getattr(command, "commands", None) or {}
    for name, inner in below.items():
        if not getattr(inner, "hidden", False):
            yield from _walk(f"{path} {name}", inner)


def _section(path: str, command: Any) -> str:
    level = "##" if path.count(" ") == 1 else "###"
    lines = [f"{level} {path}", "", cleandoc(command.help or "").replace("\b", ""), ""]
    rows = [row for parameter in command.params if (row := _row(parameter)) is not None]
    if rows:
        lines += ["| option | default | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(parameter: Any) -> str | None:
    """One line of the table; None for what every command has, and for what is hidden."""
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return None
    is_argument = parameter.param_type_name == "argument"
    shown = parameter.name.upper() if is_argument else ", ".join((*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    if parameter.required:
        told = "**required**"
    elif default is None or default == () or callable(default) or default is False:
        told = ""
    else:
        told = f"`{getattr(default, 'value', default)}`"
    meaning = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
    return f"| `{shown}` | {told} | {meaning} |"
