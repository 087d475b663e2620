"""`orion-recall settings`: every setting, and which of them are set."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from orion_recall.cli.output import JsonFlag, show, table
from orion_recall.errors import SettingsError
from orion_recall.schemas.settings_reference import as_markdown, setting_rows, unknown_variables
from orion_recall.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference, for a file.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """List every setting, which of them are set, and names that nothing reads.

    Values are not shown: an address may hold a password. Exit code 2 when what is set cannot be used.

    Example: `orion-recall settings --json | jq -r '.settings[] | select(.is_set) | .variable'`
    """
    rows = setting_rows()
    if markdown:
        print(as_markdown(rows), end="")
        return 0
    given = {name.upper() for name in os.environ}
    unknown = unknown_variables(os.environ)
    error = _error()
    told = [
        {
            "variable": row.variable,
            "default": row.default or None,
            "meaning": row.meaning,
            "is_secret": row.is_secret,
            "is_set": not given.isdisjoint(row.variables),
        }
        for row in rows
    ]
    shown = [
        (one["variable"], "set" if one["is_set"] else "", one["default"] or "-", one["meaning"]) for one in told
    ]
    show(
        {"settings": told, "unknown": unknown, "error": error},
        table(("variable", "", "default", "meaning"), shown),
        as_json=as_json,
        remarks=[
            *(f"nothing reads {name}" for name in unknown),
            error and f"these settings cannot be used: {error}",
        ],
    )
    return 0 if error is None else 2


def _error() -> str | None:
    try:
        Settings.read()
    except SettingsError as error:
        return str(error)
    return None
