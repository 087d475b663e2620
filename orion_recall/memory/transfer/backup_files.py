"""The files of a backup, in a folder or in one ZIP file: `manifest.json`, and a file of rows for each table."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from pydantic import TypeAdapter, ValidationError

from orion_recall.errors import BackupError

MANIFEST = "manifest.json"
FORMAT = 1

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
        """The name of its file."""
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
        """The text of the file."""
        return json.dumps(asdict(self), indent=2) + "\n"


_READ_MANIFEST = TypeAdapter(Manifest)


class Digested:
    """Writes the bytes of one file, and counts and hashes them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._sha256 = file, hashlib.sha256()
        self.bytes = self.lines = 0

    def write(self, data: bytes) -> None:
        """More bytes. COPY writes one line a row."""
        with _as_backup_error():
            self._file.write(data)
        self._sha256.update(data)
        self.bytes += len(data)
        self.lines += data.count(b"\n")

    @property
    def sha256(self) -> str:
        """Of what was written so far."""
        return self._sha256.hexdigest()


class BackupWriter:
    """Writes a temporary copy; `finish` renames it to the target, complete."""

    def __init__(self, target: Path) -> None:
        self._target, self._part = target, target.with_name(f"{target.name}.{os.getpid()}.part")
        self._zip: zipfile.ZipFile | None = None
        self._file: IO[bytes] | None = None
        self._begun = False

    def begin(self) -> None:
        """BackupError when there is something already: a backup is never written over."""
        if self._target.is_symlink() or (self._target.exists() and not _is_empty_folder(self._target)):
            raise BackupError(f"{self._target} is there already: give another name, or delete it")
        with _as_backup_error():
            self._target.parent.mkdir(parents=True, exist_ok=True)
            if is_zip(self._target):
                descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                self._file = os.fdopen(descriptor, "wb")
                self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED)
            else:
                self._part.mkdir(mode=0o700)
            self._begun = True

    @contextmanager
    def file(self, name: str) -> Generator[Digested]:
        """One file, to be written in the block."""
        if self._zip is not None:
            with self._zip.open(name, "w", force_zip64=True) as file:
                yield Digested(file)
            return
        with (self._part / name).open("xb") as file:
            yield Digested(file)
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> None:
        """The backup is complete, on disk."""
        with _as_backup_error():
            if self._zip is not None and self._file is not None:
                self._zip.close()
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
            if self._target.is_dir():
                self._target.rmdir()
            self._part.rename(self._target)

    def give_up(self) -> None:
        """Deletes what was written."""
        if not self._begun:
            return
        if self._zip is not None and self._file is not None:
            with contextlib.suppress(OSError, ValueError):
                self._zip.close()
            with contextlib.suppress(OSError):
                self._file.close()
            self._part.unlink(missing_ok=True)
        else:
            shutil.rmtree(self._part, ignore_errors=True)


@contextmanager
def _as_backup_error() -> Generator[None]:
    """Where the disk fails: else it would be taken for Postgres."""
    try:
        yield
    except OSError as error:
        raise BackupError(f"the backup cannot be written: {error.strerror or error} ({error.filename})") from error


class BackupReader:
    """Reads a backup: `manifest`, `check` it, then the rows of each table."""

    def __init__(self, source: Path) -> None:
        self._source = source

    def manifest(self) -> Manifest:
        """What it holds; BackupError when it is no backup, or of a later format."""
        try:
            given = json.loads(b"".join(self._chunks(MANIFEST)))
        except ValueError as error:
            raise BackupError(f"{self._source}: {MANIFEST} cannot be read: {error}") from error
        try:
            if given["format"] != FORMAT:
                raise BackupError(
                    f"{self._source}: the backup has format {given['format']}; this version reads format {FORMAT}"
                )
            return _READ_MANIFEST.validate_python(given)
        except (KeyError, TypeError, ValidationError) as error:
            raise BackupError(
                f"{self._source}: {MANIFEST} is not that of a backup: give a folder or *.zip of `memory backup`"
            ) from error

    def check(self, table: SavedTable) -> None:
        """BackupError unless the file of the table is what was written."""
        digest, size, lines = hashlib.sha256(), 0, 0
        for chunk in self._chunks(table.file):
            digest.update(chunk)
            size += len(chunk)
            lines += chunk.count(b"\n")
        if (digest.hexdigest(), size, lines) != (table.sha256, table.bytes, table.rows):
            raise BackupError(
                f"{self._source}: {table.file} is not as it was written (SHA-256 {digest.hexdigest()[:12]}…, "
                f"{size} bytes; the manifest says {table.sha256[:12]}…, {table.bytes} bytes): nothing was restored"
            )

    def rows(self, table: SavedTable) -> Iterator[bytes]:
        """The table's file, in parts."""
        return self._chunks(table.file)

    def _chunks(self, name: str) -> Iterator[bytes]:
        try:
            if self._source.is_dir():
                with (self._source / name).open("rb") as file:
                    yield from iter(lambda: file.read(_CHUNK), b"")
            else:
                with zipfile.ZipFile(self._source) as archive, archive.open(name) as file:
                    yield from iter(lambda: file.read(_CHUNK), b"")
        except KeyError:
            raise BackupError(f"{self._source}: there is no {name} in it: give a complete backup") from None
        except zipfile.BadZipFile as error:
            raise BackupError(f"{self._source}: no backup that can be read: {error}") from error
        except OSError as error:
            raise BackupError(f"{self._source}: {name}: {error.strerror or error}") from error


def is_zip(path: Path) -> bool:
    """Whether a backup of that name is one file."""
    return path.suffix.lower() == ".zip"


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
