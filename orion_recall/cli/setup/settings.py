"""`orion-recall settings`: every setting, and which of them are set."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from orion_recall.cli.output import JsonFlag, console, note, print_json, table
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
    if as_json:
        listed = [
            {
                "variable": row.variable,
                "default": row.default or None,
                "meaning": row.meaning,
                "is_secret": row.is_secret,
                "is_set": not given.isdisjoint(row.variables),
            }
            for row in rows
        ]
        print_json({"settings": listed, "unknown": unknown, "error": error})
    else:
        shown = [
            (row.variable, "" if given.isdisjoint(row.variables) else "set", row.default or "-", row.meaning)
            for row in rows
        ]
        console().print(table(("variable", "", "default", "meaning"), shown))
        for name in unknown:
            note(f"nothing reads {name}")
        if error is not None:
            note(f"these settings cannot be used: {error}")
    return 0 if error is None else 2


def _error() -> str | None:
    try:
        Settings.read()
    except SettingsError as error:
        return str(error)
    return None
