"""Progress of an import, kept in a file so that a stopped import resumes."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from orion_recall.errors import ImportFileError
from orion_recall.memory.transfer.import_file import ImportPosition, file_status
from orion_recall.memory.transfer.import_mapping import ImportMapping


class ImportProgress:
    """A small file with the position after the last acknowledged batch of one import.

    It belongs to one file as it is now (path, size, time of change), one mapping and one bus: when any of
    these differs, the import begins anew. That costs time only, for what is stored already is unchanged.
    """

    def __init__(self, state_file: Path, source: Path, position: ImportPosition) -> None:
        self._state_file = state_file
        self._source = source
        self._position = position

    @classmethod
    def open(cls, state_dir: Path, source: Path, mapping: ImportMapping, target: str) -> ImportProgress:
        """The progress of an import to `target`, the address of the bus (kept as a hash only)."""
        stat = file_status(source)
        identity = [str(source.resolve()), stat.st_size, stat.st_mtime_ns, asdict(mapping), target]
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        state_file = state_dir / f"{key}.json"
        return cls(state_file, source, _load(state_file, stat.st_size))

    @property
    def position(self) -> ImportPosition:
        """Where to go on; the beginning for an import that is new."""
        return self._position

    def acknowledge(self, end: ImportPosition) -> None:
        """Remembers that everything before `end` is stored; batches are to be acknowledged in order."""
        state = {"file": str(self._source), "offset": end.offset, "line": end.line}
        folder = self._state_file.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=folder, suffix=".tmp")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(state, file)
                    file.flush()
                    os.fsync(file.fileno())
                Path(name).replace(self._state_file)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise ImportFileError(f"{folder}: cannot keep the progress: {error.strerror}") from error
        self._position = end

    def finish(self) -> None:
        """Forgets an import that is complete."""
        self._state_file.unlink(missing_ok=True)


def _load(state_file: Path, size: int) -> ImportPosition:
    """The position that was kept; the beginning when there is none or it makes no sense."""
    try:
        state: object = json.loads(state_file.read_text("utf-8"))
    except (OSError, ValueError):
        return ImportPosition()
    if not isinstance(state, dict):
        return ImportPosition()
    fields = cast("dict[str, Any]", state)
    offset, line = fields.get("offset"), fields.get("line")
    if not (isinstance(offset, int) and isinstance(line, int) and 0 <= offset <= size and line >= 0):
        return ImportPosition()
    return ImportPosition(offset=offset, line=line)
