"""Reads an import file (JSON lines) in batches, from the start or after the last acknowledged batch."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from orion_recall.atomic_file import whole_text
from orion_recall.bus.bounded import is_too_deep
from orion_recall.contracts import MemoryReceiptV1, MemoryV1, read_message
from orion_recall.errors import ImportFileError, InvalidMessage, SettingsError
from orion_recall.memory.transfer.import_mapping import ImportMapping, map_record
from orion_recall.text.normal import storable_json

MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_BATCH_BYTES = 2 * 1024 * 1024
# A message may be a hundred levels deep, and a memory stands some way down in it.
_MOST_LEVELS = 90
_KEPT_PROBLEMS = 100
_MOST_DIGITS = 4000
_PLACE = re.compile(r"^memories\.[0-9]+\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPosition:
    """The position of an import in its file: bytes and lines, whole lines only."""

    offset: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LineProblem:
    """A line that could not be used, with the reason."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportBatch:
    """Memories in the contract's form, each with its line; `end` is where the next batch begins."""

    memories: tuple[dict[str, Any], ...]
    lines: tuple[int, ...]
    problems: tuple[LineProblem, ...]
    end: ImportPosition


@dataclass(slots=True, kw_only=True)
class ImportSummary:
    """The summary of an import, batch by batch; the first hundred problems are kept."""

    file: str
    read: int = 0
    stored: int = 0
    unchanged: int = 0
    conflict: int = 0
    rejected: int = 0
    undated: int = 0
    problems: list[LineProblem] = field(default_factory=list[LineProblem])

    def add(self, batch: ImportBatch, receipt: MemoryReceiptV1 | None) -> None:
        """Counts a batch with its receipt; None for a batch without memories."""
        self.read += len(batch.memories) + len(batch.problems)
        self.rejected += len(batch.problems)
        self.undated += sum(1 for one in batch.memories if not (one.get("occurred_at") or one.get("mentioned_at")))
        problems = list(batch.problems)
        if receipt is not None:
            problems += self._count(batch, receipt)
        self.problems.extend(sorted(problems, key=_by_line)[: max(0, _KEPT_PROBLEMS - len(self.problems))])

    def add_unread(self, problems: Sequence[LineProblem]) -> None:
        """Counts rows that could not be read before any batch was made."""
        self.read += len(problems)
        self.rejected += len(problems)
        self.problems = sorted([*self.problems, *problems], key=_by_line)[:_KEPT_PROBLEMS]

    def _count(self, batch: ImportBatch, receipt: MemoryReceiptV1) -> Iterator[LineProblem]:
        self.stored += receipt.stored
        self.unchanged += receipt.unchanged
        self.conflict += receipt.conflict
        self.rejected += receipt.rejected
        for line, verdict in zip(batch.lines, receipt.results, strict=False):
            if verdict.status in ("conflict", "rejected"):
                # Its place in the message says nothing to who counts lines.
                reason = _PLACE.sub("", verdict.reason or "no reason was given")
                why = f"{verdict.status} {verdict.id!r}: {reason}"
                yield LineProblem(file=self.file, line=line, reason=why)

    def describe(self, unit: str = "line") -> str:
        """One line for the person who imports; `unit` is what was read."""
        units = unit if self.read == 1 else f"{unit}s"
        return (
            f"{self.file}: {self.read} {units} read, {self.stored} stored, {self.unchanged} unchanged, "
            f"{self.conflict} in conflict, {self.rejected} rejected"
            + (f"; {self.undated} without a date (occurred_at: see --map)" if self.undated else "")
        )


def _by_line(problem: LineProblem) -> int:
    return problem.line


def file_status(path: Path) -> os.stat_result:
    """What the system says of the file. ImportFileError when there is none, or it is not one of bytes on a disk.

    An import goes on where it was stopped, which a pipe or a device cannot.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise ImportFileError(f"{path}: {error.strerror or type(error).__name__}") from error
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, a socket or a device"
        raise ImportFileError(f"{path}: is {what}; give a file, one JSON object a line")
    return found


def read_batches(
    path: Path,
    mapping: ImportMapping,
    *,
    start: ImportPosition | None = None,
    batch_size: int = 200,
    called: str | None = None,
) -> Iterator[ImportBatch]:
    """The file from `start` on, in batches of at most `batch_size` memories and about 2 MiB.

    A bad line becomes a problem of its batch, and the others go on. ImportFileError: the file cannot be
    read, or holds a naive time while no zone was given. `called` is what the file is called in what is said of it.
    """
    file_status(path)
    try:
        with path.open("rb") as file:
            yield from _read(file, called or str(path), mapping, start or ImportPosition(), batch_size)
    except OSError as error:
        raise ImportFileError(f"{path}: {error.strerror or type(error).__name__}") from error


def _read(
    file: BinaryIO, called: str, mapping: ImportMapping, start: ImportPosition, batch_size: int
) -> Iterator[ImportBatch]:
    file.seek(start.offset)
    number = start.line
    memories: list[dict[str, Any]] = []
    lines: list[int] = []
    problems: list[LineProblem] = []
    began = start.offset
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        try:
            memory = _memory(_whole(file, line), mapping, first=number == 1)
        except InvalidMessage as error:
            problems.append(LineProblem(file=called, line=number, reason=str(error)))
        except ImportFileError as error:
            raise ImportFileError(f"{called}:{number}: {error}") from error
        else:
            if memory is not None:
                memories.append(memory)
                lines.append(number)
        full = max(len(memories), len(problems)) >= batch_size or file.tell() - began >= MAX_BATCH_BYTES
        if full and (memories or problems):
            yield _batch(memories, lines, problems, ImportPosition(offset=file.tell(), line=number))
            memories, lines, problems, began = [], [], [], file.tell()
    if memories or problems:
        yield _batch(memories, lines, problems, ImportPosition(offset=file.tell(), line=number))


def _batch(
    memories: list[dict[str, Any]], lines: list[int], problems: list[LineProblem], end: ImportPosition
) -> ImportBatch:
    return ImportBatch(memories=tuple(memories), lines=tuple(lines), problems=tuple(problems), end=end)


def _whole(file: BinaryIO, line: bytes) -> bytes:
    """The line, when it is not too long; else the rest of it is passed over."""
    if len(line) <= MAX_LINE_BYTES:
        return line
    part = line
    while part and not part.endswith(b"\n"):
        part = file.readline(MAX_LINE_BYTES)
    raise InvalidMessage(f"the line is longer than {MAX_LINE_BYTES} bytes")


def read_json(text: str) -> object:
    """What the text says; InvalidMessage where JSON says nothing, or something would be lost of it."""
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_number,
            object_pairs_hook=_each_once,
        )
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column" if error.lineno > 1 else "column"
        raise InvalidMessage(f"not JSON: {error.msg} at {at} {error.colno}") from error
    except RecursionError as error:
        raise InvalidMessage("the JSON is nested too deeply") from error


def _memory(line: bytes, mapping: ImportMapping, *, first: bool) -> dict[str, Any] | None:
    """The memory of one line, checked against the contract; None for a blank line."""
    try:
        text = line.decode("utf-8-sig" if first else "utf-8").strip()
    except UnicodeDecodeError as error:
        raise InvalidMessage(f"not UTF-8 at byte {error.start} of the line") from error
    if not text:
        return None
    record = read_json(text)
    if not isinstance(record, dict):
        raise InvalidMessage("expected one JSON object a line")
    try:
        if is_too_deep(cast("dict[str, Any]", record), _MOST_LEVELS):
            raise InvalidMessage(f"the JSON is nested more than {_MOST_LEVELS} levels deep")
        memory = map_record(storable_json(cast("dict[str, Any]", record)), mapping)
    except RecursionError as error:
        raise InvalidMessage("the JSON is nested too deeply") from error
    read_message(MemoryV1, memory, "")
    return memory


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise InvalidMessage(f"the number {digits[:40]} is too large")
    return number


def _number(digits: str) -> int:
    # Python reads no longer ones, and nobody counts so far.
    if len(digits) > _MOST_DIGITS:
        raise InvalidMessage(f"the number {digits[:40]}… has {len(digits)} digits")
    return int(digits)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; of a name that comes twice one value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise InvalidMessage(f"the field {twice[:60]!r} is given twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidMessage(f"{name} is no JSON number")


class ImportProgress:
    """A small file with the position after the last acknowledged batch of one import.

    It belongs to one file as it is now (path, size, time of change), one mapping and one bus: when any of
    these differs, the import begins anew. That costs time only, for what is stored already is unchanged.
    """

    def __init__(self, state_file: Path, source: Path, position: ImportPosition) -> None:
        self._state_file, self._source = state_file, source
        self.position = position

    @classmethod
    def open(cls, state_dir: Path, source: Path, mapping: ImportMapping, target: str) -> ImportProgress:
        """The progress of an import to `target`, the address of the bus (kept as a hash only)."""
        status = file_status(source)
        identity = [str(source.resolve()), status.st_size, status.st_mtime_ns, asdict(mapping), target]
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        state_file = state_dir / f"{key}.json"
        return cls(state_file, source, _kept_position(state_file, status.st_size))

    def acknowledge(self, end: ImportPosition) -> None:
        """Remembers that everything before `end` is stored; batches are to be acknowledged in order."""
        try:
            self._state_file.parent.mkdir(parents=True, exist_ok=True)
            with whole_text(self._state_file) as file:
                json.dump({"file": str(self._source), **asdict(end)}, file)
        except (OSError, SettingsError) as error:
            raise ImportFileError(f"{self._state_file.parent}: cannot keep the progress: {error}") from error
        self.position = end

    def finish(self) -> None:
        self._state_file.unlink(missing_ok=True)


def _kept_position(state_file: Path, size: int) -> ImportPosition:
    """The position that was kept; the beginning when there is none or it makes no sense."""
    try:
        state = json.loads(state_file.read_text("utf-8"))
        position = ImportPosition(offset=int(state["offset"]), line=int(state["line"]))
    except (OSError, ValueError, TypeError, LookupError):
        return ImportPosition()
    return position if 0 <= position.offset <= size and position.line >= 0 else ImportPosition()
