"""The speakers by scope, kept up to date with writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.speakers import SpeakerCache
from orion_recall.models.sparse import SparseEncoder
from orion_recall.values import Memory, Scope
from tests.samples.source_samples import TENANT, HashingEmbedder, changes, key, memory

ALL = Scope(tenant=TENANT)


class Shard:
    """Who speaks, and what was asked for."""

    def __init__(self, *names: str) -> None:
        self.names, self.asked = {*names}, list[frozenset[str] | None]()

    async def read(self, scope: Scope, among: Collection[str] | None) -> frozenset[str]:
        self.asked.append(None if among is None else frozenset(among))
        return frozenset(self.names if among is None else self.names & {*among})


def said(name: str, speaker: str, **fields: Any) -> Memory:
    return memory(name, "The harbour crane is repaired.", speaker=speaker, **fields)


async def test_new_memories_add_their_speaker_and_nothing_is_asked() -> None:
    cache, shard = SpeakerCache(), Shard("Ana")
    await cache.names(ALL, shard.read)
    await cache.names(replace(ALL, session_id="s1"), shard.read)
    shard.asked.clear()
    deleted = replace(said("c", "Cy"), deleted_at=datetime(2026, 11, 20, tzinfo=UTC))
    cache.note(changes(said("b", "Bo", session_id="s2"), deleted), ())
    assert await cache.names(ALL, shard.read) == {"Ana", "Bo"}
    assert await cache.names(replace(ALL, session_id="s1"), shard.read) == {"Ana"}
    assert shard.asked == []


async def test_an_index_knows_its_speakers_after_changes_and_deletions(folder: Path) -> None:
    index, here = EdgeIndex(folder / "index", HashingEmbedder(), SparseEncoder()), replace(ALL, session_id="s1")
    await index.open()
    try:
        told = [said("a", "Ana", session_id="s1"), said("b", "Bo", session_id="s1"), said("c", "Bo")]
        await index.apply(changes(*told))
        assert (await index.speakers(ALL), await index.speakers(here)) == ({"Ana", "Bo"}, {"Ana", "Bo"})
        await index.apply(changes(replace(told[1], speaker="Dee", version=2), start=9))
        assert (await index.speakers(ALL), await index.speakers(here)) == ({"Ana", "Bo", "Dee"}, {"Ana", "Dee"})
        await index.remove([key("a")])
        assert (await index.speakers(ALL), await index.speakers(here)) == ({"Bo", "Dee"}, {"Dee"})
        await index.remove([key("c")])
        assert (await index.speakers(ALL), await index.speakers(here)) == ({"Dee"}, {"Dee"})
    finally:
        await index.close()
