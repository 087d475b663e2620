"""The fields of a heartbeat that state the health of sources and copies, as bounded JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from orion_recall.errors import ModelError
from orion_recall.models.embedder import Embedder, SeveralForms
from orion_recall.serving.observe.disk_watch import DiskState
from orion_recall.values import SourceName

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

    `behind` is its lag in outbox positions; None while another worker writes the copy, or it cannot be used. `note`
    says what profiles ask of the copy and it does not offer.
    """

    kind: str
    copy: str | None
    behind: int | None
    error: str | None = None
    note: str | None = None


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
        "copies": _COPIES.dump_json(
            tuple(replace(one, error=_cut(one.error), note=_cut(one.note)) for one in copies)
        ).decode(),
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
    """The stores of a heartbeat; None when it has none that can be read, as one of an older worker."""
    return _read(_STORES, heartbeat.get("stores"))


def copies_of(heartbeat: Mapping[str, str]) -> tuple[CopyState, ...] | None:
    """The copies of a heartbeat; None when it has none that can be read."""
    return _read(_COPIES, heartbeat.get("copies"))


def disks_of(heartbeat: Mapping[str, str]) -> tuple[DiskState, ...] | None:
    """The disks of a heartbeat; None when it has none that can be read."""
    return _read(_DISKS, heartbeat.get("disks"))


def _read(adapter: TypeAdapter[T], value: str | None) -> T | None:
    try:
        return None if value is None else adapter.validate_json(value)
    except ValidationError:
        return None


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"
