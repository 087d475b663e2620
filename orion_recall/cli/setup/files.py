"""`orion-recall settings`, `migrate` and `contracts`: what is set, the schema, the contract files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.addresses import dsn_of, dsn_without_secrets
from orion_recall.cli.output import Remark, counted, group, listed, show
from orion_recall.errors import SettingsError
from orion_recall.postgres.schema import WORKER_ROLE, grant_worker_rights
from orion_recall.postgres.schema import migrate as apply_schema
from orion_recall.schemas import as_markdown, setting_rows, unknown_variables, write_contracts
from orion_recall.settings import Settings

contracts = group("""Write out the contracts: schemas, AsyncAPI document, examples.

    Example: `orion-recall contracts write contracts`
    """)


def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference, for a file.")] = False,
) -> int:
    """List every setting, which of them are set, and names that nothing reads.

    Values are not shown: an address may hold a password. Exit code 2 when what is set cannot be used.

    Example: `orion-recall settings --json | jq -r '.settings[] | select(.is_set) | .variable'`
    """
    known = setting_rows()
    if markdown:
        print(as_markdown(known), end="")
        return 0
    given = {name.upper() for name in os.environ}
    unknown = unknown_variables(os.environ)
    error: str | None = None
    try:
        Settings.read()
    except SettingsError as wrong:
        error = str(wrong)
    told = [
        {"variable": row.variable, "default": row.default or None, "meaning": row.meaning,
         "is_secret": row.is_secret, "is_set": not given.isdisjoint(row.variables)}
        for row in known
    ]  # fmt: skip
    remarks = [*(f"nothing reads {name}" for name in unknown), error and f"these settings cannot be used: {error}"]
    columns = ("variable", "", "default", "meaning")
    rows = [
        (one["variable"], "set" if one["is_set"] else "", one["default"] or "-", one["meaning"]) for one in told
    ]
    value = {"settings": told, "unknown": unknown, "error": error}
    listed(value, columns, rows, remarks=remarks)
    return 0 if error is None else 2


def migrate() -> None:
    """Apply the schema to Postgres, so that workers need no right to.

    ORION_POSTGRES_DSN is then a login that owns the tables, or may create them. Where there is a role
    orion_worker, it gets what a worker needs, table by table, and no more; deploy/postgres/roles.sql makes it.
    A worker whose login may create tables does without this command.

    Example: `ORION_POSTGRES_DSN=postgresql://orion_owner@db/orion orion-recall migrate`
    """
    dsn = dsn_of(Settings.read())

    async def run() -> tuple[list[str], bool]:
        return await apply_schema(dsn), await grant_worker_rights(dsn)

    applied, granted = asyncio.run(run())
    without = f"there is no role {WORKER_ROLE}: workers need the rights of this login"
    rights = f"{WORKER_ROLE} has its rights" if granted else without
    value = {"postgres_dsn": dsn_without_secrets(dsn), "applied": applied, "worker_rights": granted}
    shown = [f"applied {name}" for name in applied] or [Remark("the schema is up to date")]
    show(value, *shown, Remark(rights))


@contracts.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction]
    pass


@contracts.command("write")
def write_files(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the files.")] = Path("contracts"),
) -> None:
    """Write the files into a folder, over those of an earlier version.

    Example: `orion-recall contracts write /tmp/contracts`
    """
    written = write_contracts(folder)
    names = [str(path) for path in written]
    show({"folder": folder, "files": names}, *names, remarks=[counted(len(names), "file")])
