"""The fields of a heartbeat that state the health of sources, copies and disks, as bounded JSON."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.errors import ModelError
from orion_recall.models.embedder import Embedder, OnnxEmbedder
from orion_recall.values import SourceName

log = logging.getLogger("orion_recall.service")

HEALTH = "health"
# broken: until the worker is restarted; failing: it is asked again; unknown: it was not asked yet.
Health = Literal["ok", "failing", "broken", "unknown"]
_MOST_ENTRIES, _MOST_CHARS = 100, 300
_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskState:
    """The disk of one folder, as last seen. `why` is set while it is short, with what follows from that."""

    name: str
    folder: str
    free_bytes: int
    least_bytes: int
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """One store of a source (`arm`), external or "" for our own. `required`: recalls are incomplete without it."""

    arm: SourceName
    store: str
    health: Health
    required: bool
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """Index or graph of the worker. `behind`: its lag in outbox positions; None while another worker writes it."""

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


_HEALTH = TypeAdapter(WorkerHealth)


def health_field(stores: Sequence[StoreState], copies: Sequence[CopyState], disks: Sequence[DiskState] = ()) -> str:
    kept = sorted(stores, key=lambda one: one.health == "ok")[:_MOST_ENTRIES]
    shown = [replace(one, why=_cut(one.why)) for one in stores if one in kept]
    told = [replace(one, error=_cut(one.error)) for one in copies]
    health = WorkerHealth(stores=shown, copies=told, disks=disks, stores_left_out=len(stores) - len(shown))
    return _HEALTH.dump_json(health).decode()


def health_of(heartbeat: Mapping[str, str]) -> WorkerHealth | None:
    """The health in a heartbeat; None when it has none that can be read, as one of another version."""
    try:
        return _HEALTH.validate_json(heartbeat.get(HEALTH, ""))
    except ValidationError:
        return None


def model_fields(embedder: Embedder) -> dict[str, str]:
    """What embeds, and why it is not the form of the model that was wanted; nothing while it is not known."""
    with contextlib.suppress(ModelError):
        note = embedder.form_note if isinstance(embedder, OnnxEmbedder) else None
        return {"model": embedder.name} | ({} if note is None else {"model_note": _cut(note) or ""})
    return {}


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"


class DiskWatch:
    """Looks at the disks of some folders: `run()` until cancelled; `changed` hears of one that has become short."""

    def __init__(self, spaces: Iterable[DiskSpace], changed: Callable[[], None]) -> None:
        self._spaces = tuple(one for one in spaces if one.least_bytes)
        self._changed = changed
        self.states: Sequence[DiskState] = ()

    async def run(self) -> None:
        while True:
            before = {one.name for one in self.states if one.why is not None}
            # In a thread: a network disk may hang.
            self.states = await asyncio.to_thread(lambda: [_seen(space) for space in self._spaces])
            short = {one.name: one.why for one in self.states if one.why is not None}
            for name in short.keys() - before:
                log.error("disk of %s: %s", name, short[name])
            for name in before - short.keys():
                log.warning("disk of %s: there is room again", name)
            if before != short.keys():
                self._changed()
            await asyncio.sleep(_EVERY_S)


def _seen(space: DiskSpace) -> DiskState:
    try:
        free, shortage = space.free_bytes, space.shortage()
    except OSError as error:  # the disk is gone: whatever uses the folder says so itself
        free, shortage = 0, f"{space.folder} cannot be looked at: {error.strerror}"
    why = shortage and f"{space.effect}: {shortage}"
    return DiskState(
        name=space.name, folder=str(space.folder), free_bytes=free, least_bytes=space.least_bytes, why=why
    )
