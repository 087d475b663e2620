"""Ids and keys of memories in external stores, unique across all stores, ours included."""

from __future__ import annotations

from orion_recall.text.normal import number_of


def cited_id(store: str, own_id: str) -> str:
    """The cited id of a memory in a mapped store: `notes:0`. A store's name has no colon."""
    return f"{store}:{own_id}"


def mapped_key(store: str, tenant: str, own_id: str) -> int:
    """The key of a memory in a mapped store, which no memory of the service's own index has."""
    return number_of(f"mapped\x1f{store}\x1f{tenant}", own_id)
