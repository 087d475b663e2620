"""Imports a file over the bus: lines, rows, items or an export, mapped to memories, several batches in flight."""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
import os
import re
import stat
import time
import zipfile
import zlib
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, cast
from zoneinfo import available_timezones

from orion_recall.bus.bounded import is_too_deep
from orion_recall.contracts import MemoryReceiptV1, MemoryV1, read_message
from orion_recall.contracts.fields import MEMORY_KINDS, nearest
from orion_recall.errors import ClientError, ImportFileError, InvalidMessage
from orion_recall.memory.record.record import CopyPosition
from orion_recall.memory.transfer.formats import (
    ITEMS,
    LEFT_OUT,
    LINES,
    MOST_LEVELS,
    NEAREST_KINDS,
    NOTES,
    ROWS,
    Format,
    Unit,
    read_notes,
    recognise,
)
from orion_recall.memory.transfer.json_values import json_values, read_json
from orion_recall.tasks import cancel
from orion_recall.text.normal import storable_json
from orion_recall.text.zones import time_zone

MAX_LINE_BYTES, MAX_BATCH_BYTES, _KEPT_PROBLEMS = 4 * 1024 * 1024, 2 * 1024 * 1024, 100
# Text of messages is packed to a tenth or so of its size; a bomb, to a thousandth.
_MOST_UNPACKED, _LEAST_SUSPICIOUS_BYTES = 200, 64 << 20
# What is read of a folder or a ZIP file: of downloads from ChatGPT and Claude, and of Hindsight's archives.
_EXPORTED = re.compile(r"(?:.*/)?(?:conversations[^/]*|documents/[^/]+|observations)\.json")
_MARKDOWN = (".md", ".markdown")
_PLACE = re.compile(r"^memories\.[0-9]+\.")

_TARGETS = tuple(MemoryV1.model_fields)
_TIMES = frozenset(("occurred_at", "occurred_until", "mentioned_at"))
_LISTS = frozenset(("tags", "entities", "supersedes"))
_NEEDED = ("id", "text")
_EMPTY: tuple[object, ...] = (None, "", [], {})
_SAMPLE_BYTES, _DELIMITERS = 64 * 1024, ",;\t|"
# Other names of fields in CSV and JSON arrays, used where the field itself is absent. JSON lines have none.
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "id": ("memory_id", "key"), "text": ("content", "body", "message"), "speaker": ("author",),
    "session_id": ("session", "conversation_id"), "user_id": ("user",), "occurred_at": ("date", "timestamp"),
    "tags": ("labels",),
}  # fmt: skip

_Records = Iterable[tuple[int, object]]
Store = Callable[[Sequence[Mapping[str, Any]]], Awaitable[MemoryReceiptV1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineProblem:
    file: str
    line: int
    reason: str
    unit: Unit = "line"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.unit == "line" else f"{self.file}, {self.unit} {self.line}"
        return f"{place}: {self.reason}"


@dataclass(slots=True)
class ImportBatch:
    """Memories with the places where they stand in a file, and what is none."""

    file: str
    format: Format
    memories: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lines: list[int] = field(default_factory=list[int])
    problems: list[LineProblem] = field(default_factory=list[LineProblem])
    left_out: int = 0

    def problem(self, line: int, reason: str) -> LineProblem:
        return LineProblem(file=self.file, line=line, reason=reason, unit=self.format.unit)


@dataclass(slots=True, kw_only=True)
class ImportSummary:
    """The summary of an import, batch by batch; the first hundred problems are kept."""

    file: str
    format: Format = LINES
    read: int = 0
    stored: int = 0
    unchanged: int = 0
    conflict: int = 0
    rejected: int = 0
    left_out: int = 0
    undated: int = 0
    position: int | None = None
    problems: list[LineProblem] = field(default_factory=list[LineProblem])

    def add(self, batch: ImportBatch, receipt: MemoryReceiptV1 | None) -> None:
        """Counts a batch with its receipt; None for a batch without memories."""
        self.format = batch.format
        self.read += len(batch.memories) + len(batch.problems) + batch.left_out
        self.left_out += batch.left_out
        self.rejected += len(batch.problems)
        self.undated += sum(1 for one in batch.memories if not (one.get("occurred_at") or one.get("mentioned_at")))
        problems = [*batch.problems]
        if receipt is not None:
            for name in ("stored", "unchanged", "conflict", "rejected"):
                setattr(self, name, getattr(self, name) + getattr(receipt, name))
            if receipt.position is not None:
                self.position = max(self.position or 0, receipt.position)
            for line, verdict in zip(batch.lines, receipt.results, strict=False):
                if verdict.status in ("conflict", "rejected"):
                    # Its place in the message says nothing to who counts lines.
                    reason = _PLACE.sub("", verdict.reason or "no reason was given")
                    why = f"{verdict.status} {verdict.id!r}: {reason}"
                    problems.append(batch.problem(line, why))
        problems.sort(key=lambda one: one.line)
        self.problems += problems[: _KEPT_PROBLEMS - len(self.problems)]

    def describe(self) -> str:
        is_own = self.format in (LINES, ITEMS, ROWS)
        called = self.file if is_own else f"{self.file} ({self.format.name})"
        hint = " (occurred_at: see --map)" if is_own else ""
        many = re.sub("y$", "ie", self.format.noun) + "s"
        return (
            f"{called}: {self.read} {self.format.noun if self.read == 1 else many} read, {self.stored} stored, "
            f"{self.unchanged} unchanged, {self.conflict} in conflict, {self.rejected} rejected"
            + (f", {self.left_out} left out (system, hidden or empty)" if self.left_out else "")
            + (f"; {self.undated} without a date{hint}" if self.undated else "")
        )


class ImportMapping(NamedTuple):
    """`fields` is memory field -> source field (dots go into objects); `timezone` is for naive times.

    A kind that is not among `kinds` becomes the nearest one, where there is one.
    """

    fields: Mapping[str, str] = MappingProxyType({})
    timezone: tzinfo | None = None
    tenant: str | None = None
    kinds: Collection[str] = MEMORY_KINDS


def read_mapping(
    fields: str | None = None,
    *,
    timezone: str | None = None,
    tenant: str | None = None,
    kinds: Collection[str] = MEMORY_KINDS,
) -> ImportMapping:
    """The mapping that `--map id=memory_id,occurred_at=when.start` and its companions ask for."""
    pairs: dict[str, str] = {}
    for part in filter(str.strip, (fields or "").split(",")):
        target, equals, source = (piece.strip() for piece in part.partition("="))
        if not (target and equals and source):
            raise ImportFileError(f"--map: {part.strip()!r} is not of the form field=source_field")
        if target in pairs:
            raise ImportFileError(f"--map: {target!r} is given twice")
        if target not in _TARGETS:
            raise ImportFileError(f"--map: a memory has no field {target!r}; {nearest(target, _TARGETS)}")
        pairs[target] = source
    try:
        zone = time_zone(timezone) if timezone else None
        return ImportMapping(fields=pairs, timezone=zone, tenant=tenant, kinds=kinds)
    except ValueError as error:
        close = get_close_matches(timezone or "", available_timezones(), 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ImportFileError(f"--timezone: {timezone!r} is {error}{hint}") from error


def map_record(record: Mapping[str, Any], mapping: ImportMapping) -> dict[str, Any]:
    """A memory's fields out of one line, as JSON values. Fields without a place go into metadata, if not empty.

    What has a wrong type is left for the contract to refuse. ImportFileError: a naive time, and no zone was given.
    """
    rest: dict[str, Any] = dict(record)
    memory: dict[str, Any] = {}
    for target, source in mapping.fields.items():
        memory[target], _ = _taken(record, source)
        _, rest = _taken(rest, source)
    memory |= {name: rest.pop(name) for name in _TARGETS if name in rest and name not in mapping.fields}
    # An empty text is refused as one, not as one that is missing.
    memory = {
        name: _shaped(name, value, mapping)
        for name, value in memory.items()
        if value not in _EMPTY or (name in _NEEDED and value == "")
    }
    kind = memory.get("kind")
    if isinstance(kind, str) and kind not in mapping.kinds and kind.casefold() in NEAREST_KINDS:
        memory |= {"kind": NEAREST_KINDS[kind.casefold()], "tags": [*memory.get("tags", ()), kind]}
    if mapping.tenant is not None:
        memory.setdefault("tenant", mapping.tenant)
    metadata = memory.get("metadata", {})
    if isinstance(metadata, dict):
        metadata = dict(cast("dict[str, Any]", metadata))
        for name, value in rest.items():
            while name in metadata:
                name += "_"
            if value not in _EMPTY:
                metadata[name] = value
        if metadata:
            memory["metadata"] = metadata
    return memory


def _taken(record: Mapping[str, Any], path: str) -> tuple[Any, dict[str, Any]]:
    """The value under a name, or a path of names, and the record without it. A name that has the dots wins."""
    if path in record:
        return record[path], {name: value for name, value in record.items() if name != path}
    head, dot, tail = path.partition(".")
    inner = record.get(head)
    if not dot or not isinstance(inner, dict):
        return None, dict(record)
    value, left = _taken(cast("dict[str, Any]", inner), tail)
    return value, {**record, head: left}


def _shaped(name: str, value: Any, mapping: ImportMapping) -> Any:
    """A number where a text belongs is its text, a single tag is a list of one, and a naive time gets the zone."""
    if name in _LISTS:
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        return [_shaped("", one, mapping) for one in values if one not in _EMPTY]
    if name not in _TIMES:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return str(value) if is_number and name != "metadata" else value
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value  # the contract says what is wrong with it
    if moment.tzinfo is not None:
        return value
    if mapping.timezone is None:
        raise ImportFileError(
            f"{name}: the time {value!r} has no zone: give --timezone with the zone it is in, such as "
            "--timezone UTC or --timezone Europe/Oslo, and run it again: what is stored already stays as it is"
        )
    return moment.replace(tzinfo=mapping.timezone).isoformat()


def _with_aliases(mapping: ImportMapping, names: Sequence[str]) -> ImportMapping:
    taken = set(mapping.fields.values())
    found = {
        target: alias
        for target, aliases in _ALIASES.items()
        if target not in mapping.fields and target not in names
        for alias in reversed(aliases)
        if alias in names and alias not in taken
    }
    return mapping._replace(fields={**mapping.fields, **found})


def check_file(path: Path) -> None:
    """ImportFileError for what is no file that can be read twice."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ImportFileError(f"{path}: {error.strerror or type(error).__name__}") from error
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise ImportFileError(f"{path}: is {what}; give a file, one JSON object a line")


def read_batches(
    path: Path, mapping: ImportMapping, *, batch_size: int = 200, called: str | None = None
) -> Iterator[ImportBatch]:
    """The file in batches of at most `batch_size` memories and about 2 MiB. `called` is its name in messages.

    `path` may be a ZIP file or a folder of an export, or a folder of Markdown files. A bad line, row, item or
    message becomes a problem of its batch, and the others go on. ImportFileError: no line can be read as a memory,
    or one has a naive time while no zone was given.
    """
    name = called or str(path)
    try:
        for file_name, key, file in _files(path, name):
            try:
                form, records, read_as = _opened(file, key, mapping, file_name)
                yield from _batches(ImportBatch(file_name, form), records, read_as, batch_size)
            except InvalidMessage as error:
                raise ImportFileError(f"{file_name}: {error}") from error
            except UnicodeDecodeError as error:
                raise ImportFileError(f"{file_name}: not UTF-8 ({error.reason}): save it as UTF-8") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ImportFileError(f"{name}: cannot be unpacked: {error}") from error
    except OSError as error:
        raise ImportFileError(f"{path}: {error.strerror or type(error).__name__}") from error


def _files(path: Path, called: str) -> Iterator[tuple[str, str, BinaryIO]]:
    """The file, or those of a folder or ZIP file that are read, in order: name, name for ids, and content."""
    whole = path.resolve()
    if not path.is_dir():
        check_file(path)
        with path.open("rb") as file:
            is_packed = file.read(4) == b"PK\x03\x04"
            file.seek(0)
            if not is_packed:
                yield called, f"{whole.parent.name}/{whole.name}", file
                return
        with zipfile.ZipFile(path) as archive:
            for packed in _chosen(archive.namelist(), called):
                info = archive.getinfo(packed)
                if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ImportFileError(f"{called}/{packed}: is encrypted, or packed in a way that is not read")
                if info.file_size > max(_LEAST_SUSPICIOUS_BYTES, _MOST_UNPACKED * info.compress_size):
                    raise ImportFileError(
                        f"{called}/{packed}: has {info.file_size} bytes, packed into {info.compress_size}: no "
                        "export is packed so tightly"
                    )
                with archive.open(info) as file:
                    yield f"{called}/{packed}", packed, cast("BinaryIO", file)
        return
    found = [
        file.relative_to(path).as_posix()
        for folder, _, names in os.walk(path)
        for name in names
        if (file := Path(folder) / name).is_file() and not file.is_symlink()
    ]
    for name in _chosen(found, called):
        with (path / name).open("rb") as file:
            yield f"{called}/{name}", f"{whole.name}/{name}", file


def _chosen(names: Iterable[str], called: str) -> list[str]:
    """The files of an export; without any the Markdown files. Those of hidden folders are not looked at."""
    seen = sorted(name for name in names if not name.startswith(".") and "/." not in name)
    chosen = [name for name in seen if _EXPORTED.fullmatch(name)] or [
        name for name in seen if name.lower().endswith(_MARKDOWN)
    ]
    if not chosen:
        raise ImportFileError(f"{called}: neither conversations.json nor a Markdown file (.md) is in it")
    return chosen


def _batches(
    batch: ImportBatch, records: _Records, mapping: ImportMapping, batch_size: int
) -> Iterator[ImportBatch]:
    file, form, size = batch.file, batch.format, 0
    for number, record in records:
        if record is LEFT_OUT:
            batch.left_out += 1
            continue
        try:
            memory = _memory(record, mapping)
        except InvalidMessage as error:
            name = f"{record['id']!r}: " if form.noun != form.unit and isinstance(record, dict) else ""
            batch.problems.append(batch.problem(number, f"{name}{error}"))
        except ImportFileError as error:
            raise ImportFileError(str(batch.problem(number, str(error)))) from error
        else:
            batch.memories.append(memory)
            batch.lines.append(number)
            size += len(json.dumps(memory, ensure_ascii=False))
        if max(len(batch.memories), len(batch.problems)) >= batch_size or size >= MAX_BATCH_BYTES:
            yield batch
            batch, size = ImportBatch(file, form), 0
    if batch.memories or batch.problems or batch.left_out:
        yield batch


def _memory(record: object, mapping: ImportMapping) -> dict[str, Any]:
    if isinstance(record, InvalidMessage):
        raise record
    if not isinstance(record, dict):
        raise InvalidMessage("expected one JSON object a line")
    given = cast("dict[str, Any]", record)
    if is_too_deep(given, MOST_LEVELS):
        raise InvalidMessage(f"the JSON is nested more than {MOST_LEVELS} levels deep")
    memory = map_record(storable_json(given), mapping)
    try:
        read_message(MemoryV1, memory, "")
    except InvalidMessage as error:
        inner = [name for name, value in given.items() if name not in _TARGETS and _holds_objects(value)]
        if not inner or "text" in memory:
            raise
        # Exports of other programs: conversations with their turns, results of a search.
        why = f"it holds objects under {inner[0][:60]!r}: make a line with id and text of each that is a memory"
        raise InvalidMessage(f"{error}; {why}") from error
    return memory


def _holds_objects(value: object) -> bool:
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).values())
    return isinstance(value, list) and any(isinstance(one, dict) for one in cast("list[object]", value))


def _opened(
    file: BinaryIO, key: str, mapping: ImportMapping, called: str
) -> tuple[Format, _Records, ImportMapping]:
    """The format and its records. The content says it; the suffix decides where that is open."""
    suffix = Path(key).suffix.lower()
    if suffix in _MARKDOWN:
        return NOTES, read_notes(file, key), mapping
    sample = file.read(_SAMPLE_BYTES)
    file.seek(0)
    lines = [*filter(None, map(str.strip, sample.decode("utf-8-sig", "replace").splitlines()))]
    first = lines[0] if lines else "{}"
    if b"\x00" not in sample:
        if first[0] in "[{":
            return _json(file, first, key, mapping, called)
        names = [name.strip().strip('"') for name in first.split(max(_DELIMITERS, key=first.count))]
        found = _with_aliases(mapping, names).fields
        if suffix in (".csv", ".tsv") or all(found.get(name, name) in names for name in _NEEDED):
            return ROWS, *_rows(file, mapping, called)
        if any(line.startswith("{") for line in lines[:10]):
            return LINES, _lines(file), mapping  # the others are named one by one
        if first == "---" or re.match("#{1,6} ", first):
            return NOTES, read_notes(file, key), mapping
    raise _unknown(called)


def _json(
    file: BinaryIO, first: str, key: str, mapping: ImportMapping, called: str
) -> tuple[Format, _Records, ImportMapping]:
    """An export, or the items or lines of an import's own fields; so are all that are mapped."""
    values = json_values(file)
    try:
        begin = [*itertools.islice(values, 1)]
    except (InvalidMessage, UnicodeDecodeError):
        if first[0] == "[" or first == "{":
            raise
        begin = []  # the line is named with the others
    form = recognise(begin[0][1]) if begin and not mapping.fields else None
    if form is None and first[0] == "[":
        names = [*cast("dict[str, Any]", begin[0][1])] if begin and isinstance(begin[0][1], dict) else []
        form, mapping = ITEMS, _with_aliases(mapping, names)
    if form is not None:
        return form, form.records(itertools.chain(begin, values), key), mapping
    if first == "{":  # an object over several lines
        raise _unknown(called)
    file.seek(0)
    return LINES, _lines(file), mapping


def _unknown(called: str) -> ImportFileError:
    return ImportFileError(
        f"{called}: its format is not imported: give JSON lines (one object a line), a JSON array of objects, CSV "
        "with a header line, Markdown, or an export of ChatGPT, Claude, mem0, Hindsight, LangChain or OpenAI; of "
        "an object that holds the memories in a list, give the list: `jq .NAME FILE | orion-recall import -`"
    )


def _lines(file: BinaryIO) -> Iterator[tuple[int, object]]:
    for number in itertools.count(1):
        part = line = file.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        while len(line) > MAX_LINE_BYTES and part and not part.endswith(b"\n"):
            part = file.readline(MAX_LINE_BYTES)  # the rest of it is passed over
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if len(line) > MAX_LINE_BYTES:
                raise InvalidMessage(f"the line is longer than {MAX_LINE_BYTES} bytes")
            if text:
                yield number, read_json(text)
        except UnicodeDecodeError as error:
            yield number, InvalidMessage(f"not UTF-8 at byte {error.start} of the line")
        except InvalidMessage as error:
            yield number, error


def _rows(file: BinaryIO, mapping: ImportMapping, called: str) -> tuple[_Records, ImportMapping]:
    csv.field_size_limit(MAX_LINE_BYTES)
    texts = (line.decode("utf-8" if place else "utf-8-sig") for place, line in enumerate(file))
    first = next(texts)
    rows = csv.reader(itertools.chain((first,), texts), delimiter=max(_DELIMITERS, key=first.count), strict=True)
    header = [column.strip() for column in next(rows)]
    if twice := next((column for column, count in Counter(header).items() if count > 1), None):
        raise ImportFileError(f"{called}:1: the column {twice[:60]!r} is there twice")
    mapping = _with_aliases(mapping, header)
    for name in _NEEDED:
        if mapping.fields.get(name, name) not in header:
            columns = ", ".join(header)
            advice = f"call one {name}, or give `import` --map {name}=COLUMN, one of {columns}"
            raise ImportFileError(f"{called}:1: no column gives {name}: {advice}")
    targets = {source: target for target, source in mapping.fields.items()}

    def records() -> Iterator[tuple[int, object]]:
        try:
            for number, row in enumerate(rows, 2):
                if len(row) not in (0, len(header)):
                    why = f"the row has {len(row)} values, and the header {len(header)} columns"
                    yield number, InvalidMessage(why)
                    continue
                cells = zip(header, row, strict=False)
                given = {
                    name: _value(targets.get(name, name), cell) for name, cell in cells if name and cell.strip()
                }
                if given:
                    yield number, given
        except csv.Error as error:
            raise ImportFileError(f"{called}:{rows.line_num}: not CSV: {error}") from error

    return records(), mapping


def _value(target: str, cell: str) -> Any:
    if target in _LISTS and not cell.lstrip().startswith("["):
        return [part.strip() for part in cell.replace(";", ",").split(",") if part.strip()]
    if target in _LISTS or target == "metadata" or (target in _TIMES and cell.strip().isdecimal()):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return cell  # the contract says what is wrong with it
    return cell.strip() if target in _TIMES or target == "id" else cell


_IN_FLIGHT = 4
# A lagging copy that has not moved for so long is not waited for any longer.
_STALLED_S, _LOOK_EVERY_S = 15.0, 0.1


class Waited(NamedTuple):
    """Copies before the position: `lagging`, `gone` (without heartbeats), and kinds of which no copy has any."""

    position: int
    lagging: tuple[CopyPosition, ...]
    gone: tuple[CopyPosition, ...]
    missing: tuple[str, ...]

    @property
    def caught_up(self) -> bool:
        return not self.lagging and not self.missing


async def import_file(
    store: Store,
    path: Path,
    mapping: ImportMapping | None = None,
    *,
    advanced: Callable[[ImportSummary], None] = lambda summary: None,
    batch_size: int = 200,
    called: str | None = None,
) -> ImportSummary:
    """Stores every memory of a file by a client's `store`; done when all of it is acknowledged.

    Batches travel side by side: of two lines with one id and other content, either may be the one that is kept.
    ImportFileError: the file cannot be read. ReplyTimeout, BusUnavailable, ClientError: run it again.
    """
    summary = ImportSummary(file=called or str(path))
    batches = read_batches(path, mapping or ImportMapping(), batch_size=batch_size, called=called)
    in_flight: deque[tuple[ImportBatch, asyncio.Task[MemoryReceiptV1 | None]]] = deque()

    async def stored(batch: ImportBatch) -> MemoryReceiptV1 | None:
        receipt = await store(batch.memories) if batch.memories else None
        if receipt is not None and receipt.error is not None:
            raise ClientError(f"the lines up to {batch.lines[-1]} were not stored: {receipt.error.message}")
        return receipt

    async def settle(left: int) -> None:
        while len(in_flight) > left:
            batch, storing = in_flight[0]
            summary.add(batch, await storing)
            in_flight.popleft()
            advanced(summary)

    try:
        # Reading and checking a batch takes a while: not on the loop.
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            await settle(_IN_FLIGHT - 1)
            in_flight.append((batch, asyncio.create_task(stored(batch))))
        await settle(0)
    finally:
        await cancel(*(storing for _, storing in in_flight))
    return summary


async def wait_for_copies(
    positions: Callable[[], Awaitable[list[CopyPosition]]],
    position: int,
    *,
    stalled_s: float = _STALLED_S,
    advanced: Callable[[Sequence[CopyPosition]], None] = lambda copies: None,
) -> Waited:
    """Waits until every copy with heartbeats, at least one index and one graph, is at `position`, or none moves."""
    last: dict[tuple[str, str], int] = {}
    moved_at = time.monotonic()
    while True:
        copies = await positions()
        kept = [copy for copy in copies if not copy.is_gone]
        advanced(kept)
        waited = Waited(
            position=position,
            lagging=tuple(copy for copy in kept if copy.position < position),
            gone=tuple(copy for copy in copies if copy.is_gone and copy.position < position),
            missing=tuple(sorted({"index", "graph"} - {copy.kind for copy in kept})),
        )
        # Not by heartbeats: a copy that cannot move has those, too.
        now_at = {(copy.copy, copy.kind): copy.position for copy in kept}
        if now_at != last:
            last, moved_at = now_at, time.monotonic()
        if waited.caught_up or time.monotonic() - moved_at > stalled_s:
            return waited
        await asyncio.sleep(_LOOK_EVERY_S)
