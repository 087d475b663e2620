"""Passages of long memories in every index alike: embedded, in the client's local mode, and behind REST calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orion_recall.index.texts import dense_forms, spans_of
from orion_recall.models.sparse import SparseEncoder
from orion_recall.values import Change, Memory, Scope
from tests.samples.index_kinds import Index, IndexPlace
from tests.samples.source_samples import TENANT, TokenEmbedder, changes, key, memory
from tests.stand_ins.qdrant_process import QdrantStandIn

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")

FILLER = "We talked about the weather and about nothing else for a long while. " * 16
LONG = memory(
    "long",
    f"{FILLER}\nThe sluice gate rusts on 5 March 2026.\n{FILLER}\nA heron nests under the footbridge.\n{FILLER}",
    speaker="Ruth", session_id="spring", user_id="u", agent_id="ag", run_id="r", tags=["river"],
    entities=["Sluice"], mentioned_at="2026-01-01T00:00Z",
)  # fmt: skip
SHORT = memory("short", "The heron likes eels.", speaker="Ivo", session_id="spring")
OTHER = memory("other", "A quiet day.", speaker="Ivo", session_id="autumn")
ABROAD = replace(LONG, tenant="elsewhere")
ALL = (LONG, SHORT, OTHER, ABROAD)


@pytest.fixture(params=["edge", "local", "stand-in"])
async def index(request: pytest.FixtureRequest, folder: Path, stand_in: QdrantStandIn) -> AsyncIterator[Index]:
    async with IndexPlace(request.param, folder, SparseEncoder(), stand_in).index(TokenEmbedder()) as one:
        await one.apply(changes(*ALL))
        yield one


async def vector(text: str) -> list[float]:
    return (await TokenEmbedder().embed_query(text)).tolist()


async def dense(index: Index, text: str, limit: int = 10, **scope: Any) -> list[tuple[int, float]]:
    return await index.search_dense(await vector(text), Scope(tenant=TENANT, **scope), limit, -1.0)


def later(one: Memory, text: str) -> Change:
    (changed,) = changes(replace(one, text=text, version=one.version + 1))
    return replace(changed, position=100)


async def test_a_long_memory_is_found_once_by_its_best_passage(index: Index):
    number = next(place for place, form in enumerate(dense_forms(LONG)) if "heron" in form)
    assert number > 0
    best = float(await TokenEmbedder().embed_query(dense_forms(LONG)[number]) @ await vector("heron footbridge"))
    found = await dense(index, "heron footbridge")
    assert sorted(one for one, _ in found) == sorted(key(one.id) for one in (LONG, SHORT, OTHER))
    assert dict(found)[key("long")] == pytest.approx(best, abs=1e-3)


async def test_passages_are_in_the_scope_of_their_memory(index: Index):
    assert {one for one, _ in await dense(index, "heron", session_id="autumn")} == {key("other")}
    best = dict(await dense(index, "heron footbridge"))[key("long")]
    scopes: tuple[dict[str, Any], ...] = (
        {"tags": ("river",)}, {"user_id": "u"}, {"agent_id": "ag"}, {"run_id": "r"}, {"speakers": ("Ruth",)},
        {"told": ((1_700_000_000.0, 1_900_000_000.0),)},
    )  # fmt: skip
    for scope in scopes:
        assert await dense(index, "heron footbridge", **scope) == [(key("long"), best)]
    assert await dense(index, "heron", user_id="nobody") == []


async def test_the_nearest_passage_is_known_by_its_number(index: Index):
    keys = [key(one.id) for one in (LONG, SHORT, OTHER)]
    numbers = await index.nearest_passages(await vector("heron footbridge"), TENANT, keys)
    assert list(numbers) == [key("long")]
    view = (await index.fetch(keys))[key("long")]
    assert view.passages == tuple(place for span in spans_of(LONG) for place in span)
    assert "heron nests" in view._replace(passage=numbers[key("long")]).best_text
    assert "heron nests" not in view.best_text
    assert await index.nearest_passages(await vector("heron"), TENANT, []) == {}


async def test_late_interaction_compares_the_passage_that_is_asked_for(index: Index):
    embedder = TokenEmbedder()
    asked = await embedder.query_tokens("heron footbridge")
    _, held = await embedder.documents_with_tokens(dense_forms(LONG))
    for number in (0, 1):
        expected = float((asked @ held[number].T).max(axis=1).sum())
        found = await index.max_sim(asked, [key("long"), key("other")], {key("long"): number})
        assert set(found) == {key("long"), key("other")}
        assert found[key("long")] == pytest.approx(expected, abs=2e-3)


async def test_no_other_search_sees_passages_and_the_memory_counts_once(index: Index):
    assert await index.speakers(Scope(tenant=TENANT)) == {"Ruth", "Ivo"}
    assert set(await index.held()) == {key(one.id) for one in (LONG, SHORT, OTHER)} | {key("long", "elsewhere")}
    (own, context) = await index.search_sparse(index.sparse.encode_query("footbridge"), Scope(tenant=TENANT), 50)
    assert [one for one, _ in own] == [key("long")]
    assert len(context) == len(dict(context))
    assert [name.casefold() for name, _ in await index.find_entities("sluice", TENANT, 5)] == ["sluice"]
    assert await index.titled(["heron"], Scope(tenant=TENANT), 5) == {}


async def test_a_changed_memory_leaves_no_passage_of_what_it_was(index: Index):
    await index.apply([later(LONG, f"{FILLER}\n{FILLER}\nA mill.")])
    numbers = await index.nearest_passages(await vector("heron footbridge"), TENANT, [key("long")])
    assert numbers.get(key("long"), 0) < len(spans_of(later(LONG, f"{FILLER}\n{FILLER}\nA mill.").memory))
    assert dict(await dense(index, "heron footbridge"))[key("long")] < 0.1
    await index.apply([replace(later(LONG, "A mill."), position=101)])
    assert await index.nearest_passages(await vector("heron footbridge"), TENANT, [key("long")]) == {}
    assert dict(await dense(index, "heron footbridge"))[key("long")] == pytest.approx(0, abs=0.1)


async def test_a_deleted_memory_leaves_no_passage(index: Index):
    (gone,) = changes(replace(LONG, deleted_at=1.0))
    await index.apply([replace(gone, position=100)])
    assert {one for one, _ in await dense(index, "heron footbridge")} == {key("short"), key("other")}
    assert await index.nearest_passages(await vector("heron footbridge"), TENANT, [key("long")]) == {}
    elsewhere = await index.search_dense(await vector("heron footbridge"), Scope(tenant="elsewhere"), 5, -1.0)
    assert [one for one, _ in elsewhere] == [key("long", "elsewhere")]


async def test_what_was_not_said_anew_keeps_its_passages_without_being_embedded(index: Index):
    before = dict(await dense(index, "heron footbridge"))
    embedder = index.embedder
    assert isinstance(embedder, TokenEmbedder)
    embedder.asked.clear()
    await index.apply([replace(changes(LONG)[0], position=100)])
    assert embedder.asked == []
    assert dict(await dense(index, "heron footbridge")) == pytest.approx(before, abs=1e-6)
