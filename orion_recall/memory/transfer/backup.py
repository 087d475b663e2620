"""Backup and restore of the whole record: all of its tables, from one snapshot, in one ZIP file.

A restored record has a database identity of its own, because its outbox goes on differently from the original's.
Copies of the original may be further on, so they are refused, and rebuilt.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, LiteralString

from pydantic import TypeAdapter, ValidationError

from orion_recall.errors import BackupError
from orion_recall.memory.record import sql as record_sql
from orion_recall.postgres.pool import (
    Connection,
    close_connection,
    migrate,
    open_connection,
    quote_identifier,
    shipped_migrations,
    translate,
)

_MANIFEST, _FORMAT = "manifest.json", 1
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTable:
    """One table of a backup: its rows are in `file`, as COPY writes them as text."""

    name: str
    columns: tuple[str, ...]
    rows: int
    bytes: int
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}.copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMigration:
    """An applied migration of the record that was backed up."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A backup's manifest. `record` is its database identity, `position` the end of its outbox, times are UTC."""

    format: int
    made_at: str
    version: str
    record: str
    position: int
    schema: tuple[SavedMigration, ...]
    tables: tuple[SavedTable, ...]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


_READ_MANIFEST = TypeAdapter(Manifest)


class Digested:
    """Writes the bytes of one file, and counts and hashes them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._sha256 = file, hashlib.sha256()
        self.bytes = self.lines = 0

    def write(self, data: bytes) -> None:
        with _as_backup_error():
            self._file.write(data)
        self._sha256.update(data)
        self.bytes += len(data)
        self.lines += data.count(b"\n")

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()


class _Writer:
    """Writes a ZIP file beside the target; `finish` renames it, complete."""

    def __init__(self, target: Path) -> None:
        self._target, self._part = target, target.with_name(f"{target.name}.{os.getpid()}.part")
        self._file: IO[bytes] | None = None
        self._zip: zipfile.ZipFile | None = None

    def begin(self) -> None:
        """BackupError when there is something already: a backup is never written over."""
        if self._target.is_symlink() or self._target.exists():
            raise BackupError(f"{self._target} is there already: give the name of a new file, or delete it")
        with _as_backup_error():
            self._target.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "wb")
            self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED)

    @contextmanager
    def file(self, name: str) -> Generator[Digested]:
        assert self._zip is not None
        with self._zip.open(name, "w", force_zip64=True) as file:
            yield Digested(file)

    def finish(self) -> None:
        assert self._zip is not None
        assert self._file is not None
        with _as_backup_error():
            self._zip.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.rename(self._target)

    def give_up(self) -> None:
        if self._zip is None or self._file is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self._zip.close()
        with contextlib.suppress(OSError):
            self._file.close()
        self._part.unlink(missing_ok=True)


@contextmanager
def _as_backup_error() -> Generator[None]:
    """Where the disk fails: else it would be taken for Postgres."""
    try:
        yield
    except OSError as error:
        raise BackupError(f"the backup cannot be written: {error.strerror or error} ({error.filename})") from error


class _Reader:
    """Reads a backup: `manifest`, `check` it, then the rows of each table."""

    def __init__(self, source: Path) -> None:
        self._source = source

    def manifest(self) -> Manifest:
        """What it holds; BackupError when it is no backup, or of a later format."""
        try:
            given = json.loads(b"".join(self.chunks(_MANIFEST)))
        except ValueError as error:
            raise BackupError(f"{self._source}: {_MANIFEST} cannot be read: {error}") from error
        try:
            if given["format"] != _FORMAT:
                raise BackupError(
                    f"{self._source}: the backup has format {given['format']}; this version reads format {_FORMAT}"
                )
            return _READ_MANIFEST.validate_python(given)
        except (KeyError, TypeError, ValidationError) as error:
            raise BackupError(
                f"{self._source}: {_MANIFEST} is not that of a backup: give a file of `memory backup`"
            ) from error

    def check(self, table: SavedTable) -> None:
        """BackupError unless the file of the table is what was written."""
        digest, size, lines = hashlib.sha256(), 0, 0
        for chunk in self.chunks(table.file):
            digest.update(chunk)
            size += len(chunk)
            lines += chunk.count(b"\n")
        if (digest.hexdigest(), size, lines) != (table.sha256, table.bytes, table.rows):
            raise BackupError(
                f"{self._source}: {table.file} is not as it was written (SHA-256 {digest.hexdigest()[:12]}…, "
                f"{size} bytes; the manifest says {table.sha256[:12]}…, {table.bytes} bytes): nothing was restored"
            )

    def chunks(self, name: str) -> Iterator[bytes]:
        try:
            with zipfile.ZipFile(self._source) as archive, archive.open(name) as file:
                yield from iter(lambda: file.read(_CHUNK), b"")
        except KeyError:
            raise BackupError(f"{self._source}: there is no {name} in it: give a complete backup") from None
        except (zipfile.BadZipFile, zlib.error) as error:
            raise BackupError(f"{self._source}: {name} cannot be read: {error}") from error
        except OSError as error:
            raise BackupError(
                f"{self._source}: {error.strerror or error}: give a file of `memory backup`"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that is backed up, in the order of its key; `serial` is the column that a sequence numbers.

    `refilled`: every worker fills it again, so that its rows are no reason against a restore, and give way to it.
    """

    name: LiteralString
    order: LiteralString
    serial: LiteralString | None = None
    refilled: bool = False


KEPT: tuple[Table, ...] = (
    Table(name="memories", order="seq", serial="seq"),
    Table(name="memory_history", order="id", serial="id"),
    Table(name="memory_requests", order="tenant, idempotency_key"),
    Table(name="memory_access", order="tenant, id"),
    Table(name="recall_feedback", order="id", serial="id"),
    Table(name="memory_extractions", order="tenant, memory_id", serial="ticket"),
    Table(name="entity_merges", order="id", serial="id"),
    Table(name="memory_successions", order="tenant, newer, older"),
    Table(name="memory_succession_history", order="id", serial="id"),
    Table(name="memory_forgets", order="id", serial="id"),
    Table(name="memory_forget_ids", order="forget, memory_id"),
    Table(name="outbox", order="position", serial="position"),
)
DECISIONS: tuple[Table, ...] = (
    Table(name="recall_decisions", order="created_at, id"),
    Table(name="recall_profiles", order="hash", refilled=True),
)

LEFT_OUT: Mapping[str, str] = {
    "orion_migrations": "the schema is made by the one who restores; the manifest says which it was",
    "projections": "copies say themselves how far they have come",
    "keyword_lengths": "`memory rebuild index` measures them again",
    "write_locks": "locks, of which nothing is read",
    "copy_requests": "nobody waits for the answers any more",
}


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
    """Writes the record at `dsn` into a new ZIP file; `progress` counts rows.

    All of it is one snapshot, taken without locks. BackupError: the target is there, or the schema is not
    this version's; RecordError: Postgres is away. Nothing is left when it fails.
    """
    tables = (*KEPT, *DECISIONS) if with_decisions else KEPT
    writer = _Writer(target)
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
        with writer.file(_MANIFEST) as file:
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
    reader = _Reader(source)
    manifest = await asyncio.to_thread(reader.manifest)
    tables = _known(manifest, source)
    older = _check_schema(manifest, source)
    for table in manifest.tables:
        await asyncio.to_thread(reader.check, table)
    connection = await open_connection(dsn, name="restore", statement_timeout_ms=_LONGEST_MS)
    try:
        with translate("restoring"):
            if later := {one.name for one in await _schema_of(connection)} - older:
                raise BackupError(
                    f"the database has the schema of a later version than the backup ({min(later)}): restore into "
                    "one that has no tables yet, such as a new data folder"
                )
            await migrate(dsn, [one for one in shipped_migrations() if one.name in older])
            async with connection.transaction():
                await connection.execute(record_sql.LOCK_OUTBOX)
                await _refuse_filled(connection, [table for table, _ in tables])
                await _load(connection, reader, tables, progress)
    finally:
        await close_connection(connection)
    await migrate(dsn)
    return manifest


async def _save(
    connection: Connection,
    writer: _Writer,
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
        format=_FORMAT,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("orion-recall"),
        record=await connection.fetchval(record_sql.DATABASE_IDENTITY),
        position=await connection.fetchval(record_sql.HEAD),
        schema=schema,
        tables=tuple(saved),
    )


async def _load(
    connection: Connection, reader: _Reader, tables: Sequence[tuple[Table, SavedTable]], progress: Progress
) -> None:
    total, done = sum(saved.rows for _, saved in tables), 0
    for table, saved in tables:

        async def rows(saved: SavedTable = saved, done: int = done) -> AsyncGenerator[bytes]:
            for chunk in reader.chunks(saved.file):
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
