"""What a worker's card says of its stores and copies: bounded, and readable for whoever looks at the bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from orion_recall.values import SourceName

# broken: not before the worker is started again; failing: it is asked again by itself; unknown: nobody has looked.
Health = Literal["ok", "failing", "broken", "unknown"]
_MOST_ENTRIES, _MOST_CHARS = 100, 300
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """One store of one arm. `store` is the name of a mapped one, "" the service's own.

    `required` says that recalls are not whole without the arm; `why` is there unless all is well.
    """

    arm: SourceName
    store: str
    health: Health
    required: bool
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """One copy that the worker keeps: index or graph, under the name it is registered by.

    `behind` is None while the worker does not know it: another one writes the copy, or it cannot be used. `note`
    says what profiles want of it and it does not offer.
    """

    kind: str
    copy: str | None
    behind: int | None
    error: str | None = None
    note: str | None = None


_STORES, _COPIES = TypeAdapter(tuple[StoreState, ...]), TypeAdapter(tuple[CopyState, ...])


def card_fields(stores: Sequence[StoreState], copies: Sequence[CopyState]) -> dict[str, str]:
    """The fields for a card; of very many stores those that are well are left out first."""
    kept = sorted(stores, key=lambda one: one.health == "ok")[:_MOST_ENTRIES]
    shown = tuple(replace(one, why=_cut(one.why)) for one in stores if one in kept)
    fields = {
        "stores": _STORES.dump_json(shown).decode(),
        "copies": _COPIES.dump_json(
            tuple(replace(one, error=_cut(one.error), note=_cut(one.note)) for one in copies)
        ).decode(),
    }
    left_out = len(stores) - len(shown)
    return fields | ({"stores_left_out": str(left_out)} if left_out else {})


def stores_of(card: Mapping[str, str]) -> tuple[StoreState, ...] | None:
    """What the card says of stores; None when it says nothing that can be read, as one of an older worker."""
    return _read(_STORES, card.get("stores"))


def copies_of(card: Mapping[str, str]) -> tuple[CopyState, ...] | None:
    """What the card says of copies; None when it says nothing that can be read."""
    return _read(_COPIES, card.get("copies"))


def _read(adapter: TypeAdapter[T], value: str | None) -> T | None:
    try:
        return None if value is None else adapter.validate_json(value)
    except ValidationError:
        return None


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"
