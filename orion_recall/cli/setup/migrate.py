"""`orion-recall migrate`: applies pending migrations, as the role that owns the schema."""

from __future__ import annotations

import asyncio

import typer

from orion_recall.cli.connect.addresses import dsn_of, dsn_without_secrets
from orion_recall.cli.output import JsonFlag, show
from orion_recall.postgres.pool import migrate as apply_schema
from orion_recall.postgres.rights import WORKER_ROLE, grant_worker_rights
from orion_recall.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def migrate(as_json: JsonFlag = False) -> None:
    """Apply the schema to Postgres, so that workers need no right to.

    ORION_POSTGRES_DSN is then a login that owns the tables, or may create them. Where there is a role
    orion_worker, it gets what a worker needs, table by table, and no more; deploy/postgres/roles.sql makes it.
    A worker whose login may create tables does without this command.

    Example: `ORION_POSTGRES_DSN=postgresql://orion_owner@db/orion orion-recall migrate`
    """
    dsn = dsn_of(Settings.read())
    applied, granted = asyncio.run(_migrate(dsn))
    without = f"there is no role {WORKER_ROLE}: workers need the rights of this login"
    show(
        {"postgres_dsn": dsn_without_secrets(dsn), "applied": applied, "worker_rights": granted},
        *(f"applied {name}" for name in applied),
        as_json=as_json,
        remarks=[
            None if applied else "the schema is up to date",
            f"{WORKER_ROLE} has its rights" if granted else without,
        ],
    )


async def _migrate(dsn: str) -> tuple[list[str], bool]:
    return await apply_schema(dsn), await grant_worker_rights(dsn)
