"""Imports a file over the bus: JSON lines, a JSON array or CSV, mapped to memories, several batches in flight."""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
import math
import re
import stat
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Literal, NamedTuple, NoReturn, cast
from zoneinfo import available_timezones

from orion_recall.bus.bounded import is_too_deep
from orion_recall.contracts import MemoryReceiptV1, MemoryV1, read_message
from orion_recall.contracts.fields import nearest
from orion_recall.errors import ClientError, ImportFileError, InvalidMessage
from orion_recall.memory.record.record import CopyPosition
from orion_recall.tasks import cancel
from orion_recall.text.normal import storable_json
from orion_recall.text.zones import time_zone

MAX_LINE_BYTES, MAX_BATCH_BYTES, _KEPT_PROBLEMS = 4 * 1024 * 1024, 2 * 1024 * 1024, 100
# A message may be a hundred levels deep, and a memory stands some way down in it.
_MOST_LEVELS = 90
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

Unit = Literal["line", "row", "item"]
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


class ImportBatch(NamedTuple):
    unit: Unit
    memories: list[dict[str, Any]]
    lines: list[int]
    problems: list[LineProblem]


@dataclass(slots=True, kw_only=True)
class ImportSummary:
    """The summary of an import, batch by batch; the first hundred problems are kept."""

    file: str
    unit: Unit = "line"
    read: int = 0
    stored: int = 0
    unchanged: int = 0
    conflict: int = 0
    rejected: int = 0
    undated: int = 0
    position: int | None = None
    problems: list[LineProblem] = field(default_factory=list[LineProblem])

    def add(self, batch: ImportBatch, receipt: MemoryReceiptV1 | None) -> None:
        """Counts a batch with its receipt; None for a batch without memories."""
        self.unit = batch.unit
        self.read += len(batch.memories) + len(batch.problems)
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
                    problems.append(LineProblem(file=self.file, line=line, reason=why, unit=batch.unit))
        problems.sort(key=lambda one: one.line)
        self.problems += problems[: _KEPT_PROBLEMS - len(self.problems)]

    def describe(self) -> str:
        units = self.unit if self.read == 1 else f"{self.unit}s"
        return (
            f"{self.file}: {self.read} {units} read, {self.stored} stored, {self.unchanged} unchanged, "
            f"{self.conflict} in conflict, {self.rejected} rejected"
            + (f"; {self.undated} without a date (occurred_at: see --map)" if self.undated else "")
        )


class ImportMapping(NamedTuple):
    """`fields` is memory field -> source field (dots go into objects); `timezone` is for naive times."""

    fields: Mapping[str, str] = MappingProxyType({})
    timezone: tzinfo | None = None
    tenant: str | None = None


def read_mapping(
    fields: str | None = None, *, timezone: str | None = None, tenant: str | None = None
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
        return ImportMapping(fields=pairs, timezone=time_zone(timezone) if timezone else None, tenant=tenant)
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

    A bad line, row or item becomes a problem of its batch, and the others go on. ImportFileError: no line can be
    read as a memory, or one has a naive time while no zone was given.
    """
    name = called or str(path)
    check_file(path)
    try:
        with path.open("rb") as file:
            unit = _unit_of(file.read(_SAMPLE_BYTES), path.suffix.lower(), mapping, name)
            file.seek(0)
            records: _Records
            if unit == "line":
                records = _lines(file)
            else:
                records, mapping = (_items if unit == "item" else _rows)(file, mapping, name)
            batch, size = ImportBatch(unit, [], [], []), 0
            for number, record in records:
                try:
                    memory = _memory(record, mapping)
                except InvalidMessage as error:
                    batch.problems.append(LineProblem(file=name, line=number, reason=str(error), unit=unit))
                except ImportFileError as error:
                    raise ImportFileError(f"{name}:{number}: {error}") from error
                else:
                    batch.memories.append(memory)
                    batch.lines.append(number)
                    size += len(json.dumps(memory, ensure_ascii=False))
                if max(len(batch.memories), len(batch.problems)) >= batch_size or size >= MAX_BATCH_BYTES:
                    yield batch
                    batch, size = ImportBatch(unit, [], [], []), 0
            if batch.memories or batch.problems:
                yield batch
    except UnicodeDecodeError as error:
        raise ImportFileError(f"{name}: not UTF-8 ({error.reason}): save it as UTF-8") from error
    except OSError as error:
        raise ImportFileError(f"{path}: {error.strerror or type(error).__name__}") from error


def _memory(record: object, mapping: ImportMapping) -> dict[str, Any]:
    if isinstance(record, InvalidMessage):
        raise record
    if not isinstance(record, dict):
        raise InvalidMessage("expected one JSON object a line")
    given = cast("dict[str, Any]", record)
    if is_too_deep(given, _MOST_LEVELS):
        raise InvalidMessage(f"the JSON is nested more than {_MOST_LEVELS} levels deep")
    memory = map_record(storable_json(given), mapping)
    read_message(MemoryV1, memory, "")
    return memory


def _unit_of(sample: bytes, suffix: str, mapping: ImportMapping, called: str) -> Unit:
    """What the content is made of; the suffix decides where that is open. ImportFileError: of nothing known."""
    lines = [*filter(None, map(str.strip, sample.decode("utf-8-sig", "replace").splitlines()))]
    first = lines[0] if lines else "{}"
    if b"\x00" not in sample and first != "{":  # that is an object over several lines
        if first[0] in "[{":
            return "item" if first[0] == "[" else "line"
        names = [name.strip().strip('"') for name in first.split(max(_DELIMITERS, key=first.count))]
        found = _with_aliases(mapping, names).fields
        if suffix in (".csv", ".tsv") or all(found.get(name, name) in names for name in _NEEDED):
            return "row"
        if any(line.startswith("{") for line in lines[:10]):
            return "line"  # the others are named one by one
    raise ImportFileError(
        f"{called}: its format is not imported: give JSON lines (one object a line), a JSON array of objects, or "
        "CSV with a header line"
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
                yield number, _read_json(text)
        except UnicodeDecodeError as error:
            yield number, InvalidMessage(f"not UTF-8 at byte {error.start} of the line")
        except InvalidMessage as error:
            yield number, error


def _items(file: BinaryIO, mapping: ImportMapping, called: str) -> tuple[_Records, ImportMapping]:
    try:
        items = cast("list[Any]", _read_json(file.read().decode("utf-8-sig")))
    except InvalidMessage as error:
        raise ImportFileError(f"{called}: {error}") from error
    first = cast("dict[str, Any]", items[0]) if items and isinstance(items[0], dict) else {}
    return enumerate(items, 1), _with_aliases(mapping, list(first))


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
            raise ImportFileError(f"{called}:1: no column gives {name}: give --map {name}=COLUMN, one of {columns}")
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


def _read_json(text: str) -> object:
    """What the text says; InvalidMessage where JSON says nothing, or something would be lost of it."""
    try:
        return _READER.decode(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column" if error.lineno > 1 else "column"
        raise InvalidMessage(f"not JSON: {error.msg} at {at} {error.colno}") from error
    except ValueError as error:  # a number of more digits than Python reads
        raise InvalidMessage(f"a number is too long: {error}") from error
    except RecursionError as error:
        raise InvalidMessage("the JSON is nested too deeply") from error


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise InvalidMessage(f"the number {digits[:40]} is too large")
    return number


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; of a name that comes twice one value would be lost."""
    if len(found := dict(pairs)) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidMessage(f"the field {twice[:60]!r} is given twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidMessage(f"{name} is no JSON number")


_READER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_each_once)
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
