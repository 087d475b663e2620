"""The fields of a heartbeat that state the health of sources and copies, as bounded JSON."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.errors import ModelError
from orion_recall.models.embedder import Embedder, SeveralForms
from orion_recall.values import SourceName

log = logging.getLogger("orion_recall.service")

_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskState:
    """The disk of one folder, as last seen. `why` is set while it is short, with what follows from that."""

    name: str
    folder: str
    free_bytes: int
    least_bytes: int
    why: str | None = None


class DiskWatch:
    """Looks at the disks of some folders: `run()` until cancelled; `changed` hears of one that has become short."""

    def __init__(self, spaces: Iterable[DiskSpace], changed: Callable[[], None] = lambda: None) -> None:
        self._spaces = tuple(one for one in spaces if one.least_bytes)
        self._changed = changed
        self.states: Sequence[DiskState] = ()

    async def run(self) -> None:
        """Look every two seconds, in a thread: a network disk may hang."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        before = {one.name for one in self.states if one.why is not None}
        self.states = await asyncio.to_thread(lambda: [_seen(space) for space in self._spaces])
        short = {one.name: one for one in self.states if one.why is not None}
        for name, one in short.items():
            if name not in before:
                log.error("disk of %s: %s", name, one.why)
        for name in before - short.keys():
            log.warning("disk of %s: there is room again", name)
        if before != short.keys():
            self._changed()


def _seen(space: DiskSpace) -> DiskState:
    try:
        free, shortage = space.free_bytes, space.shortage()
    except OSError as error:  # the disk is gone: whatever uses the folder says so itself
        free, shortage = 0, f"{space.folder} cannot be looked at: {error.strerror}"
    return DiskState(
        name=space.name,
        folder=str(space.folder),
        free_bytes=free,
        least_bytes=space.least_bytes,
        why=shortage and f"{space.effect}: {shortage}",
    )


# broken: until the worker is restarted; failing: it is asked again; unknown: it was not asked yet.
Health = Literal["ok", "failing", "broken", "unknown"]
_MOST_ENTRIES, _MOST_CHARS = 100, 300
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """One store of a retrieval source: the state in which its last check found it.

    `arm` is the source, under the key that heartbeats use. `store` is an external one, or "" for our own.
    `required`: recalls are incomplete without the source. `why` is set unless the store is well.
    """

    arm: SourceName
    store: str
    health: Health
    required: bool
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """One copy that the worker maintains: index or graph, under its registered name.

    `behind` is its lag in outbox positions; None while another worker writes the copy, or it cannot be used.
    """

    kind: str
    copy: str | None
    behind: int | None
    error: str | None = None


_STORES, _COPIES = TypeAdapter(tuple[StoreState, ...]), TypeAdapter(tuple[CopyState, ...])
_DISKS = TypeAdapter(tuple[DiskState, ...])


def health_fields(
    stores: Sequence[StoreState], copies: Sequence[CopyState], disks: Sequence[DiskState] = ()
) -> dict[str, str]:
    """The fields for a heartbeat; of very many stores those that are well are left out first."""
    kept = sorted(stores, key=lambda one: one.health == "ok")[:_MOST_ENTRIES]
    shown = tuple(replace(one, why=_cut(one.why)) for one in stores if one in kept)
    fields = {
        "stores": _STORES.dump_json(shown).decode(),
        "copies": _COPIES.dump_json(tuple(replace(one, error=_cut(one.error)) for one in copies)).decode(),
    }
    if disks:
        fields["disks"] = _DISKS.dump_json(tuple(disks)).decode()
    left_out = len(stores) - len(shown)
    return fields | ({"stores_left_out": str(left_out)} if left_out else {})


def model_fields(embedder: Embedder) -> dict[str, str]:
    """What embeds, and why it is not the form of the model that was wanted; nothing while it is not known."""
    try:
        fields = {"model": embedder.name}
        note = embedder.form_note if isinstance(embedder, SeveralForms) else None
    except ModelError:
        return {}
    return fields if note is None else fields | {"model_note": _cut(note) or ""}


def stores_of(heartbeat: Mapping[str, str]) -> tuple[StoreState, ...] | None:
    return _read(_STORES, heartbeat.get("stores"))


def copies_of(heartbeat: Mapping[str, str]) -> tuple[CopyState, ...] | None:
    """The copies of a heartbeat; None when it has none that can be read."""
    return _read(_COPIES, heartbeat.get("copies"))


def disks_of(heartbeat: Mapping[str, str]) -> tuple[DiskState, ...] | None:
    return _read(_DISKS, heartbeat.get("disks"))


def _read(adapter: TypeAdapter[T], value: str | None) -> T | None:
    try:
        return None if value is None else adapter.validate_json(value)
    except ValidationError:
        return None


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"
