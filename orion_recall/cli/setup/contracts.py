"""`orion-recall contracts`: writes the contract files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.output import JsonFlag, counted, show
from orion_recall.schemas.files import write_contracts

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Write out the contracts: schemas, AsyncAPI document, examples.

    Example: `orion-recall contracts write contracts`
    """,
)


@app.callback()
def group() -> None:
    pass


@app.command("write")
def write(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the files.")] = Path("contracts"),
    as_json: JsonFlag = False,
) -> None:
    """Write the files into a folder, over those of an earlier version.

    Example: `orion-recall contracts write /tmp/contracts`
    """
    written = write_contracts(folder)
    names = [str(path) for path in written]
    show({"folder": folder, "files": names}, *names, as_json=as_json, remarks=[counted(len(names), "file")])
