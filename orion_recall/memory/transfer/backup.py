"""Backup and restore of the whole record: all of its tables, from one snapshot.

A restored record has a database identity of its own, because its outbox goes on differently from the original's.
Copies of the original may be further on, so they are refused, and rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from orion_recall.errors import BackupError
from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record.tables import DECISIONS, KEPT, Table
from orion_recall.memory.transfer.backup_files import (
    FORMAT,
    MANIFEST,
    BackupReader,
    BackupWriter,
    Digested,
    Manifest,
    SavedMigration,
    SavedTable,
)
from orion_recall.postgres.pool import (
    Connection,
    close_connection,
    migrate,
    open_connection,
    quote_identifier,
    shipped_migrations,
    translate,
)

Progress = Callable[[int, int], None]

# A large table takes its time.
_LONGEST_MS = 6 * 3600 * 1000
# Those that the database computes are computed again.
_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
_APPLIED = "SELECT name, sha256 FROM orion_migrations ORDER BY name"


async def back_up(
    dsn: str, target: Path, *, with_decisions: bool = False, progress: Progress = lambda done, total: None
) -> Manifest:
    """Writes the record at `dsn` into a new folder, or a new file named *.zip; `progress` counts rows.

    All of it is one snapshot, taken without locks. BackupError: the target is there, or the schema is not
    this version's; RecordError: Postgres is away. Nothing is left when it fails.
    """
    tables = (*KEPT, *DECISIONS) if with_decisions else KEPT
    writer = BackupWriter(target)
    connection = await open_connection(dsn, name="backup", statement_timeout_ms=_LONGEST_MS)
    try:
        with translate("backing up"):
            schema = await _schema_of(connection)
            if {one.name for one in schema} != {one.name for one in shipped_migrations()}:
                raise BackupError("the schema of the record is not this version's: `orion-recall migrate` first")
            await asyncio.to_thread(writer.begin)
            # Ended with the connection: after a copy that was cut short nothing can be said on it any more.
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            manifest = await _save(connection, writer, tables, schema, progress)
        with writer.file(MANIFEST) as file:
            file.write(manifest.as_json().encode())
        await asyncio.to_thread(writer.finish)
    except BaseException:
        writer.give_up()
        raise
    finally:
        await close_connection(connection)
    return manifest


async def restore(dsn: str, source: Path, *, progress: Progress = lambda done, total: None) -> Manifest:
    """Puts a backup into the database at `dsn`, which holds no memories yet; `progress` counts rows.

    The files are checked first, the rows come in one transaction. The schema is made as it was, and brought up to
    this version's afterwards. BackupError: a file is damaged, the backup is of a later version, or the record has
    memories.
    """
    reader = BackupReader(source)
    manifest = await asyncio.to_thread(reader.manifest)
    tables = _known(manifest, source)
    older = _check_schema(manifest, source)
    for table in manifest.tables:
        await asyncio.to_thread(reader.check, table)
    await migrate(dsn, [one for one in shipped_migrations() if one.name in older])
    connection = await open_connection(dsn, name="restore", statement_timeout_ms=_LONGEST_MS)
    try:
        with translate("restoring"):
            later = {one.name for one in await _schema_of(connection)} - older
            if later:
                raise BackupError(
                    f"the database has the schema of a later version than the backup ({min(later)}): restore into "
                    "one that has no tables yet, such as a new data folder"
                )
            async with connection.transaction():
                # The schema may be of a version that has no locks of its own yet.
                await connection.execute("LOCK TABLE outbox IN SHARE ROW EXCLUSIVE MODE")
                await _refuse_filled(connection, [table for table, _ in tables])
                await _load(connection, reader, tables, progress)
    finally:
        await close_connection(connection)
    await migrate(dsn)
    return manifest


async def _save(
    connection: Connection,
    writer: BackupWriter,
    tables: Sequence[Table],
    schema: tuple[SavedMigration, ...],
    progress: Progress,
) -> Manifest:
    total = done = 0
    for table in tables:
        total += await connection.fetchval(f"SELECT count(*) FROM {table.name}")  # noqa: S608 (our own name)
    saved: list[SavedTable] = []
    for table in tables:
        columns = tuple(row["attname"] for row in await connection.fetch(_COLUMNS, table.name))
        chosen = ", ".join(map(quote_identifier, columns))
        query = f"SELECT {chosen} FROM {table.name} ORDER BY {table.order}"  # noqa: S608 (quoted)
        with writer.file(f"{table.name}.copy") as file:

            async def write(data: bytes, file: Digested = file, before: int = done) -> None:
                await asyncio.to_thread(file.write, data)
                progress(before + file.lines, total)

            try:
                await connection.copy_from_query(query, output=write)
            except BaseException:
                connection.terminate()
                raise
        done += file.lines
        saved.append(
            SavedTable(name=table.name, columns=columns, rows=file.lines, bytes=file.bytes, sha256=file.sha256)
        )
    return Manifest(
        format=FORMAT,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("orion-recall"),
        record=await connection.fetchval(record_sql.DATABASE_IDENTITY),
        position=await connection.fetchval(record_sql.HEAD),
        schema=schema,
        tables=tuple(saved),
    )


async def _load(
    connection: Connection, reader: BackupReader, tables: Sequence[tuple[Table, SavedTable]], progress: Progress
) -> None:
    total, done = sum(saved.rows for _, saved in tables), 0
    for table, saved in tables:

        async def rows(saved: SavedTable = saved, done: int = done) -> AsyncGenerator[bytes]:
            for chunk in reader.rows(saved):
                yield chunk
                done += chunk.count(b"\n")
                progress(done, total)

        if table.refilled:
            await connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 (our own name)
        await connection.copy_to_table(saved.name, source=rows(), columns=saved.columns)
        done += saved.rows
        if table.serial is not None:
            await connection.execute(
                f"SELECT setval(pg_get_serial_sequence($1, $2), greatest(1, max({table.serial})), "  # noqa: S608
                f"max({table.serial}) IS NOT NULL) FROM {table.name}",
                table.name,
                table.serial,
            )
    for table, _ in tables:
        await connection.execute(f"ANALYZE {table.name}")


async def _refuse_filled(connection: Connection, tables: Sequence[Table]) -> None:
    for table in tables:
        if table.refilled:
            continue
        if await connection.fetchval(f"SELECT EXISTS (SELECT FROM {table.name})"):  # noqa: S608 (our own name)
            raise BackupError(
                f"the record is not empty ({table.name} has rows): restore into a new one, by another data folder "
                "(--data) or another database (ORION_POSTGRES_DSN)"
            )


async def _schema_of(connection: Connection) -> tuple[SavedMigration, ...]:
    if not await connection.fetchval("SELECT to_regclass('orion_migrations') IS NOT NULL"):
        return ()
    rows = await connection.fetch(_APPLIED)
    return tuple(SavedMigration(name=row["name"], sha256=row["sha256"]) for row in rows)


def _known(manifest: Manifest, source: Path) -> list[tuple[Table, SavedTable]]:
    """The tables of the backup with what is known of them."""
    known = {table.name: table for table in (*KEPT, *DECISIONS)}
    for saved in manifest.tables:
        if saved.name not in known:
            raise BackupError(f"{source}: the table {saved.name!r} is not known here: {_newer(manifest)}")
    return [(known[saved.name], saved) for saved in manifest.tables]


def _check_schema(manifest: Manifest, source: Path) -> frozenset[str]:
    """The names of the schema's files that the record had; this version must have them all, as they were."""
    shipped = {one.name: one.sha256 for one in shipped_migrations()}
    for one in manifest.schema:
        if shipped.get(one.name) != one.sha256:
            raise BackupError(f"{source}: {one.name} of its schema is not this version's: {_newer(manifest)}")
    return frozenset(one.name for one in manifest.schema)


def _newer(manifest: Manifest) -> str:
    return f"the backup was made by version {manifest.version}; restore it with that one or a later one"
