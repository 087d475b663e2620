"""Names for what is found in stores of others: no two stores, and not the own one, share one."""

from __future__ import annotations

from orion_recall.text.normal import number_of


def cited_id(store: str, own_id: str) -> str:
    """The id of a memory of a mapped store, as it is cited: `notes:0`. A store's name holds no colon."""
    return f"{store}:{own_id}"


def mapped_key(store: str, tenant: str, own_id: str) -> int:
    """Its number in a recall, which no memory of the own index has, whatever its id is."""
    return number_of(f"mapped\x1f{store}\x1f{tenant}", own_id)
