"""Backup and restore of the whole record: all of its tables, from one snapshot, in one ZIP file.

A restored record has a database identity of its own, because its outbox goes on differently from the original's.
Copies of the original may be further on, so they are refused, and rebuilt.
"""

from __future__ import annotations

import asyncio
import json
import zipfile
import zlib
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, cast

from pydantic import TypeAdapter

from orion_recall.atomic_file import whole_file
from orion_recall.errors import BackupError
from orion_recall.memory.record import sql as record_sql
from orion_recall.postgres.address import quote_identifier
from orion_recall.postgres.pool import Connection, close_connection, open_connection, translate
from orion_recall.postgres.schema import migrate, shipped_migrations

_MANIFEST, _FORMAT = "manifest.json", 2
# It has some thousand: what is packed small may be large.
_MOST_BYTES = 1 << 20
# A large table takes its time.
_CHUNK, _LONGEST_MS = 1 << 20, 6 * 3600 * 1000
# Those that the database computes are computed again.
_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""


class Table(NamedTuple):
    name: LiteralString
    order: LiteralString
    serial: LiteralString | None = None
    refilled: bool = False


KEPT: tuple[Table, ...] = (
    Table("memories", "seq", serial="seq"),
    Table("memory_history", "id", serial="id"),
    Table("memory_requests", "tenant, idempotency_key"),
    Table("memory_access", "tenant, id"),
    Table("recall_feedback", "id", serial="id"),
    Table("memory_extractions", "tenant, memory_id", serial="ticket"),
    Table("entity_merges", "id", serial="id"),
    Table("memory_successions", "tenant, newer, older"),
    Table("memory_succession_history", "id", serial="id"),
    Table("memory_forgets", "id", serial="id"),
    Table("memory_forget_ids", "forget, memory_id"),
    Table("outbox", "position", serial="position"),
)
DECISIONS: tuple[Table, ...] = (
    Table("recall_decisions", "created_at, id"),
    Table("recall_profiles", "hash", refilled=True),
)
_KNOWN = {table.name: table for table in (*KEPT, *DECISIONS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTable:
    name: str
    columns: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A backup's manifest. `record` is its database identity, `position` the end of its outbox, times are UTC."""

    format: int
    made_at: str
    version: str
    record: str
    position: int
    schema: dict[str, str]
    tables: tuple[SavedTable, ...]


_READ_MANIFEST = TypeAdapter(Manifest)


async def back_up(dsn: str, target: Path, *, with_decisions: bool = False) -> Manifest:
    """Writes one snapshot of the record at `dsn` into a new ZIP file; nothing is left when it fails.

    BackupError: the target is there, or the schema is not this version's; RecordError: Postgres is away.
    """
    if target.is_symlink() or target.exists():
        raise BackupError(f"{target} is there already: give the name of a new file, or delete it")
    connection = await open_connection(dsn, name="backup", statement_timeout_ms=_LONGEST_MS)
    try:
        with translate("backing up"):
            made = await connection.fetchval("SELECT to_regclass('orion_migrations') IS NOT NULL")
            rows = await connection.fetch("SELECT name, sha256 FROM orion_migrations") if made else []
            schema = {row["name"]: row["sha256"] for row in rows}
            if schema != _shipped_schema():
                raise BackupError("the schema of the record is not this version's: `orion-recall migrate` first")
        with (
            whole_file(target) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            translate("backing up"),
        ):
            # Ended with the connection: after a copy that was cut short nothing can be said on it any more.
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            tables = (*KEPT, *(DECISIONS if with_decisions else ()))
            saved = [await _save(connection, archive, table) for table in tables]
            manifest = Manifest(
                format=_FORMAT,
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                version=version("orion-recall"),
                record=await connection.fetchval(record_sql.DATABASE_IDENTITY),
                position=await connection.fetchval(record_sql.HEAD),
                schema=schema,
                tables=tuple(saved),
            )
            archive.writestr(_MANIFEST, json.dumps(asdict(manifest), indent=2) + "\n")
    except BaseException:
        connection.terminate()
        raise
    finally:
        await close_connection(connection)
    return manifest


async def _save(connection: Connection, archive: zipfile.ZipFile, table: Table) -> SavedTable:
    columns = tuple(row["attname"] for row in await connection.fetch(_COLUMNS, table.name))
    chosen = ", ".join(map(quote_identifier, columns))
    query = f"SELECT {chosen} FROM {table.name} ORDER BY {table.order}"  # noqa: S608 (quoted)
    with archive.open(f"{table.name}.copy", "w", force_zip64=True) as file:

        async def write(data: bytes) -> None:
            try:
                await asyncio.to_thread(file.write, data)
            except OSError as error:
                why = f"{error.strerror or error} ({error.filename})"
                raise BackupError(f"the backup cannot be written: {why}") from error

        status = await connection.copy_from_query(query, output=write)
    return SavedTable(name=table.name, columns=columns, rows=int(status.split()[-1]))


async def restore(dsn: str, source: Path) -> Manifest:
    """Puts a backup into the database at `dsn`, in one transaction. BackupError: it is damaged, or does not fit."""
    manifest = await asyncio.to_thread(_checked, source)
    tables = [(_KNOWN[saved.name], saved) for saved in manifest.tables]
    await migrate(dsn)
    connection = await open_connection(dsn, name="restore", statement_timeout_ms=_LONGEST_MS)
    try:
        with translate("restoring"), zipfile.ZipFile(source) as archive:
            async with connection.transaction():
                await connection.execute(record_sql.LOCK_OUTBOX)
                for table, _ in tables:
                    query = f"SELECT EXISTS (SELECT FROM {table.name})"  # noqa: S608 (our own name)
                    if not table.refilled and await connection.fetchval(query):
                        raise BackupError(
                            f"the record is not empty ({table.name} has rows): restore into a new one, by another "
                            "data folder (--data) or another database (ORION_POSTGRES_DSN)"
                        )
                for table, saved in tables:
                    await _load(connection, archive, table, saved)
    finally:
        await close_connection(connection)
    return manifest


def _checked(source: Path) -> Manifest:
    try:
        with zipfile.ZipFile(source) as archive:
            if archive.getinfo(_MANIFEST).file_size > _MOST_BYTES:
                raise BackupError(
                    f"{source}: {_MANIFEST} is larger than {_MOST_BYTES} bytes: it is not of `memory backup`"
                )
            given: Any = json.loads(archive.read(_MANIFEST))
            if isinstance(given, dict) and (found := cast("dict[str, Any]", given).get("format")) != _FORMAT:
                raise BackupError(f"{source}: the backup has format {found}; this version reads format {_FORMAT}")
            manifest = _READ_MANIFEST.validate_python(given)
            for saved in manifest.tables:
                archive.getinfo(f"{_KNOWN[saved.name].name}.copy")
            damaged = archive.testzip()
    except KeyError as error:
        raise BackupError(f"{source}: {error.args[0]}: give a complete backup") from None
    except (zipfile.BadZipFile, zlib.error, ValueError, RuntimeError, EOFError) as error:
        raise BackupError(f"{source}: it cannot be read: {error}: give a file of `memory backup`") from error
    except OSError as error:
        raise BackupError(f"{source}: {error.strerror or error}: give a file of `memory backup`") from error
    if damaged is not None:
        raise BackupError(f"{source}: {damaged} is not as it was written: nothing was restored")
    if manifest.schema != _shipped_schema():
        raise BackupError(
            f"{source}: the schema is not this version's: the backup was made by version {manifest.version}: "
            "restore it with that one, then `memory export` there and `import` here"
        )
    return manifest


def _shipped_schema() -> dict[str, str]:
    return {one.name: one.sha256 for one in shipped_migrations()}


async def _load(connection: Connection, archive: zipfile.ZipFile, table: Table, saved: SavedTable) -> None:
    async def rows() -> AsyncGenerator[bytes]:
        with archive.open(f"{saved.name}.copy") as opened:
            while chunk := await asyncio.to_thread(opened.read, _CHUNK):
                yield chunk

    if table.refilled:
        await connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 (our own name)
    await connection.copy_to_table(saved.name, source=rows(), columns=saved.columns)
    if table.serial is not None:
        await connection.execute(
            f"SELECT setval(pg_get_serial_sequence($1, $2), greatest(1, max({table.serial})), "  # noqa: S608
            f"max({table.serial}) IS NOT NULL) FROM {table.name}",
            table.name,
            table.serial,
        )
    await connection.execute(f"ANALYZE {table.name}")
