"""The embedded index indexes a payload field from its first value on, and answers as if it had indexed all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from orion_recall.index.embedded import index as edge_index
from orion_recall.index.embedded import points as edge_points
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.embedded.points import indexed_fields
from orion_recall.index.embedded.shard import LiveShard
from orion_recall.index.points import IndexPoint
from orion_recall.index.requests import Filter
from orion_recall.models.sparse import SparseEncoder
from orion_recall.values import Memory, Scope
from tests.samples.source_samples import NOW, TENANT, HashingEmbedder, changes, key, memory

PLAIN = tuple(memory(f"plain-{number}", f"The harbour crane {number} has a gearbox.") for number in range(3))
ELSEWHERE = memory("theirs", "The harbour crane has a winch.", tenant="another", speaker="Eve")
RICH = (
    memory(
        "turn", "The harbour crane is repaired on Friday at 9:30, and greased every Tuesday.", speaker="Ana",
        session_id="s1", user_id="u1", agent_id="scout", run_id="r1", kind="observation", occurred_at=NOW,
        tags=["crane"], entities=["Harbour Crane"], title="Crane of Oslo",
    ),
    memory("reply", "The crane gearbox is on order.", speaker="Bo", session_id="s1", mentioned_at=NOW + 60),
    memory("long", " ".join(f"Crane {number} stands on quay {number * 7}." for number in range(200)), speaker="Cy"),
)  # fmt: skip
EVERYTHING = (*PLAIN, *RICH, ELSEWHERE)

PARTS: Sequence[Mapping[str, Any]] = (
    {},
    {"session_id": "s1"},
    {"user_id": "u1"},
    {"agent_id": "scout", "run_id": "r1"},
    {"kinds": ("observation",)},
    {"tags": ("crane", "boat")},
    {"speakers": ("Bo", "Cy")},
    {"session_id": "s1", "speakers": ("Ana",)},
    {"since": NOW - 10},
    {"until": NOW + 10},
    {"as_of": NOW + 10},
    {"as_of": NOW - 10},
    {"told": ((NOW, NOW + 7 * 86_400),)},
    {"told": ((None, NOW - 1),)},
)


@contextlib.asynccontextmanager
async def opened(folder: Path, sparse: SparseEncoder) -> AsyncGenerator[EdgeIndex]:
    one = EdgeIndex(folder, HashingEmbedder(), sparse)
    await one.open()
    try:
        yield one
    finally:
        await one.close()


async def answers(index: EdgeIndex) -> dict[str, object]:
    """What the index says of every scope: keys by scores where scores may be equal."""
    sparse, asked = SparseEncoder(), "harbour crane gearbox"
    vector = (await HashingEmbedder().embed_query(asked)).tolist()
    said: dict[str, object] = {}
    for parts in PARTS:
        for tenant in (TENANT, "another"):
            scope = Scope(tenant=tenant, **parts)
            words = await index.search_sparse(sparse.encode_query(asked), scope, 9)
            said[str(scope)] = (
                rounded(await index.search_dense(vector, scope, 9, -1.0)),
                *map(rounded, words),
                await index.speakers(scope),
                dict(await index.titled(["oslo", "crane of oslo"], scope, 9)),
                [list(await index.in_time_order(scope, 9, newest_first=newest)) for newest in (False, True)],
                list(await index.in_time_order(scope, 9, without_sessions=["s1"])),
            )
    keys = [key(one.id, one.tenant) for one in EVERYTHING]
    said["all"] = (
        [await index.has_titles(TENANT), await index.has_passages(TENANT), index.may_have_passages()],
        dict(await index.nearest_passages(vector, TENANT, keys)),
        rounded([*enumerate(score for _, score in await index.find_entities("harbour crane", TENANT, 9))]),
        dict(await index.held()),
        dict(await index.fetch(keys)),
    )
    return said


def rounded(found: Sequence[tuple[int, float]]) -> dict[int, float]:
    return {name: round(score, 5) for name, score in found}


async def made_anew(
    folder: Path, sparse: SparseEncoder, memories: Sequence[Memory], monkeypatch: pytest.MonkeyPatch
) -> dict[str, object]:
    """The answers of an index of the memories that has the indexes of all fields from its first point on."""
    with monkeypatch.context() as patched:
        patched.setattr(edge_points, "_ALL_FROM_POINTS", 0)
        async with opened(folder, sparse) as anew:
            await anew.apply(changes(*memories))
            assert edge_points.FIELD_TYPES.keys() == fields_of(anew)
            return await answers(anew)


def fields_of(index: EdgeIndex) -> frozenset[str]:
    return indexed_fields(live_of(index).checked())


def live_of(index: EdgeIndex) -> LiveShard:
    return index._live  # pyright: ignore[reportPrivateUsage]


async def test_values_that_come_later_are_found_as_in_an_index_made_anew(
    tmp_path: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    plain = await made_anew(tmp_path / "plain", sparse, PLAIN, monkeypatch)
    everything = await made_anew(tmp_path / "anew", sparse, EVERYTHING, monkeypatch)
    folder = tmp_path / "index"
    async with opened(folder, sparse) as index:
        await index.apply(changes(*PLAIN))
        assert await answers(index) == plain
    async with opened(folder, sparse) as index:
        assert await answers(index) == plain
        await index.apply(changes(*RICH, ELSEWHERE, start=9))
        assert await answers(index) == everything
        await index.optimise()
        assert await answers(index) == everything
    async with opened(folder, sparse) as index:
        assert await answers(index) == everything


@pytest.mark.slow
async def test_values_that_come_later_are_found_in_an_index_that_is_written_anew(
    tmp_path: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    everything = await made_anew(tmp_path / "anew", sparse, EVERYTHING, monkeypatch)
    async with opened(tmp_path / "index", sparse) as index:
        await index.apply(changes(*PLAIN))
        await index.compact()
        await index.apply(changes(*RICH, ELSEWHERE, start=9))
        await index.compact()
        assert await answers(index) == everything


async def test_values_that_come_while_a_copy_is_made_are_found_in_it(
    tmp_path: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    everything = await made_anew(tmp_path / "anew", sparse, EVERYTHING, monkeypatch)
    async with opened(tmp_path / "index", sparse) as index:
        await index.apply(changes(*PLAIN))

        async def write_meanwhile(_: Path, *, anew: bool) -> None:
            await index.apply(changes(*RICH, ELSEWHERE, start=9))

        monkeypatch.setattr(edge_index, "optimise_apart", write_meanwhile)
        await index.compact()
        assert await answers(index) == everything
    async with opened(tmp_path / "index", sparse) as index:
        assert await answers(index) == everything


async def test_the_first_value_that_comes_while_it_is_searched_is_left_out_where_the_scope_says_so(
    tmp_path: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    """Of a field without values no condition is asked: a point that comes with one would be let through."""
    async with opened(tmp_path, sparse) as index:
        await index.apply(changes(memory("first", "The crane.", mentioned_at=NOW)))
        payload = {"tenant": TENANT, "id": "second", "ts": NOW + 1, "session": "s9"}
        point = IndexPoint(7, (await HashingEmbedder().embed_query("crane")).tolist(), {}, payload)
        translate, waiting = edge_index.edge_filter, [point]

        def written_meanwhile(where: Filter, fields: frozenset[str]) -> object:
            made = translate(where, fields)
            if waiting:
                live_of(index).upsert([waiting.pop()])
            return made

        monkeypatch.setattr(edge_index, "edge_filter", written_meanwhile)
        found = await index.in_time_order(Scope(tenant=TENANT), 9, without_sessions=["s9"])
        assert (waiting, [one.key for one in found]) == ([], [key("first")])
        assert [one.key for one in await index.in_time_order(Scope(tenant=TENANT), 9)] == [key("first"), 7]


VALUES: Sequence[tuple[Mapping[str, Any], set[str]]] = (
    ({}, set()),
    ({"text": "of no interest to a filter", "speaker": "Ana"}, {"speaker"}),
    ({"told": [{"since": 1.0, "until": 2.0}]}, {"told[].since", "told[].until"}),
    ({"told": [{"since": 1.0, "until": 2.0, "weekday": 3}], "of": 9}, {"told[].weekday", "of"}),
)
"""Values of a point, and the fields of which it has the first one."""


async def test_a_field_is_indexed_from_its_first_value_on_and_every_field_of_a_larger_index(
    tmp_path: Path, sparse: SparseEncoder, monkeypatch: pytest.MonkeyPatch
):
    dense = (await HashingEmbedder().embed_query("crane")).tolist()

    @contextlib.contextmanager
    def loaded() -> Generator[LiveShard]:
        live = LiveShard(tmp_path, HashingEmbedder(), sparse)
        live.load()
        yield live
        live.save()
        live.close()

    expected = {"tenant"}
    for number, (values, fields) in enumerate(VALUES):
        with loaded() as live:
            assert live.fields == expected
            live.upsert([IndexPoint(number, dense, {}, {"tenant": TENANT, **values})])
            expected |= fields
            assert live.fields == indexed_fields(live.checked()) == expected
    monkeypatch.setattr(edge_points, "_ALL_FROM_POINTS", 5)
    with loaded() as live:
        live.upsert([IndexPoint(5, dense, {}, {"tenant": TENANT})])
        assert live.fields == edge_points.FIELD_TYPES.keys()
