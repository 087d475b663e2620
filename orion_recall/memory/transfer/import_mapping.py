"""Maps the fields of an import file to the fields of a memory."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from orion_recall.contracts import MemoryV1
from orion_recall.errors import ImportFileError

_TARGETS = tuple(MemoryV1.model_fields)
_TIMES = frozenset(("occurred_at", "occurred_until", "mentioned_at"))
_LISTS = frozenset(("tags", "entities"))
_NEEDED = frozenset(("id", "text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportMapping:
    """`fields` is memory field -> source field (dots go into objects); `timezone` is for naive times.

    `tenant` is of memories whose line names none.
    """

    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    timezone: str | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        for target in self.fields:
            if target not in _TARGETS:
                hint = _nearest(target, _TARGETS) or f"; its fields are {', '.join(_TARGETS)}"
                raise ImportFileError(f"--map: a memory has no field {target!r}{hint}")
        if self.timezone is not None:
            _zone(self.timezone)


def read_mapping(
    fields: str | None = None, *, timezone: str | None = None, tenant: str | None = None
) -> ImportMapping:
    """The mapping that `--map id=memory_id,occurred_at=when.start` and its companions ask for."""
    pairs: dict[str, str] = {}
    for part in (fields or "").split(","):
        if not part.strip():
            continue
        target, equals, source = (piece.strip() for piece in part.partition("="))
        if not (target and equals and source):
            raise ImportFileError(f"--map: {part.strip()!r} is not of the form field=source_field")
        if target in pairs:
            raise ImportFileError(f"--map: {target!r} is given twice")
        pairs[target] = source
    return ImportMapping(fields=pairs, timezone=timezone, tenant=tenant)


def map_record(record: Mapping[str, Any], mapping: ImportMapping) -> dict[str, Any]:
    """A memory's fields out of one line, as JSON values; nothing is lost.

    A field that is no memory's field, or whose name another source field has taken, goes into metadata
    under its own name; null and empty ones are left out. What has a wrong type is left as it is, for the
    contract to refuse. ImportFileError: a naive time, and no zone was given.
    """
    rest: dict[str, Any] = dict(record)
    memory: dict[str, Any] = {}
    for target, source in mapping.fields.items():
        memory[target] = _read(record, source)
    for source in mapping.fields.values():
        rest = _without(rest, source)
    for name in _TARGETS:
        if name in rest and name not in mapping.fields:
            memory[name] = rest.pop(name)
    # An empty text is refused as one, not as one that is missing.
    given = {
        name: value for name, value in memory.items() if not _is_empty(value) or (name in _NEEDED and value == "")
    }
    memory = {name: _shaped(name, value) for name, value in given.items()}
    for name in _TIMES & memory.keys():
        memory[name] = _zoned(memory[name], name, mapping)
    if mapping.tenant is not None:
        memory.setdefault("tenant", mapping.tenant)
    return _with_metadata(memory, rest)


def _with_metadata(memory: dict[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    given = memory.get("metadata", {})
    if not isinstance(given, dict):
        return memory
    metadata = dict(cast("dict[str, Any]", given))
    for name, value in rest.items():
        if _is_empty(value):
            continue
        free = name
        while free in metadata:
            free += "_"
        metadata[free] = value
    if metadata:
        memory["metadata"] = metadata
    return memory


def _read(record: Mapping[str, Any], path: str) -> Any:
    """The value of a field; a field whose own name has the dots wins over a path."""
    if path in record:
        return record[path]
    head, dot, tail = path.partition(".")
    inner = record.get(head)
    return _read(cast("dict[str, Any]", inner), tail) if dot and isinstance(inner, dict) else None


def _without(record: dict[str, Any], path: str) -> dict[str, Any]:
    """The record without one field; objects that it empties go too."""
    if path in record:
        return {name: value for name, value in record.items() if name != path}
    head, dot, tail = path.partition(".")
    inner = record.get(head)
    if not dot or not isinstance(inner, dict):
        return record
    return {**record, head: _without(cast("dict[str, Any]", inner), tail)}


def _is_empty(value: object) -> bool:
    return value is None or value in ("", [], {})


def _shaped(name: str, value: Any) -> Any:
    """A number where a text belongs is its text, and a single tag is a list of one."""
    if name in _LISTS:
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        return [_as_text(one) for one in values if not _is_empty(one)]
    return value if name in _TIMES or name == "metadata" else _as_text(value)


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _zoned(value: Any, name: str, mapping: ImportMapping) -> Any:
    """The time with its zone; what is no ISO 8601 time is left for the contract to refuse."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    if moment.tzinfo is not None:
        return value
    if mapping.timezone is None:
        raise ImportFileError(
            f"{name}: the time {value!r} has no zone: give --timezone with the zone it is in, such as "
            "--timezone UTC or --timezone Europe/Oslo, and run it again: what is stored already stays as it is"
        )
    return moment.replace(tzinfo=_zone(mapping.timezone)).isoformat()


def _zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = _nearest(name, available_timezones())
        raise ImportFileError(f"--timezone: {name!r} is no known time zone{hint}") from error


def _nearest(name: str, known: Iterable[str]) -> str:
    folded = {one.casefold(): one for one in sorted(known)}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""
