"""The fields of a heartbeat that state the health of sources and copies, as bounded JSON."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """What a heartbeat says of stores, copies and disks; of very many stores those that are well are left out."""

    stores: Sequence[StoreState]
    copies: Sequence[CopyState]
    disks: Sequence[DiskState] = ()
    stores_left_out: int = 0


HEALTH = "health"
_HEALTH = TypeAdapter(WorkerHealth)


def health_field(health: WorkerHealth) -> str:
    """The value of the field `health` of a heartbeat, of a bounded size."""
    kept = sorted(health.stores, key=lambda one: one.health == "ok")[:_MOST_ENTRIES]
    shown = [replace(one, why=_cut(one.why)) for one in health.stores if one in kept]
    copies = [replace(one, error=_cut(one.error)) for one in health.copies]
    left_out = len(health.stores) - len(shown)
    told = replace(health, stores=shown, copies=copies, stores_left_out=left_out)
    return _HEALTH.dump_json(told).decode()


def health_of(heartbeat: Mapping[str, str]) -> WorkerHealth | None:
    """The health in a heartbeat; None when it has none that can be read, as one of another version."""
    try:
        return _HEALTH.validate_json(heartbeat.get(HEALTH, ""))
    except ValidationError:
        return None


def model_fields(embedder: Embedder) -> dict[str, str]:
    """What embeds, and why it is not the form of the model that was wanted; nothing while it is not known."""
    try:
        fields = {"model": embedder.name}
        note = embedder.form_note if isinstance(embedder, SeveralForms) else None
    except ModelError:
        return {}
    return fields if note is None else fields | {"model_note": _cut(note) or ""}


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"
