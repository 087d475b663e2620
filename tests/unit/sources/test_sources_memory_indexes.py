"""What every index does alike, embedded or on a server, with a handful of memories."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.index.texts import dense_forms
from orion_recall.interfaces import MemoryIndex
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.vector_lexical import LexicalSource
from orion_recall.values import Memory, MergedName, Scope
from tests.samples.index_kinds import KINDS, IndexPlace, snapshot
from tests.samples.source_samples import (
    ALL,
    CRANE,
    NOW,
    ORDER,
    OURS,
    TENANT,
    THEIRS,
    HashingEmbedder,
    changes,
    dense,
    id_of,
    key,
    lexical,
    memory,
    request,
)
from tests.stand_ins.qdrant_process import QdrantStandIn

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")

_NO_SERVER = "ORION_TEST_QDRANT_URL is not set: no real Qdrant server to test against"


@contextlib.asynccontextmanager
async def opened(kind: str, sparse: SparseEncoder, stand_in: QdrantStandIn) -> AsyncGenerator[MemoryIndex]:
    """An empty index of a kind, gone at the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="orion-test-"))
    try:
        async with IndexPlace(kind, folder, sparse, stand_in).index(HashingEmbedder()) as one:
            yield one
            if isinstance(one, QdrantIndex):
                await one.client.delete_collection(one.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Where the index is."""
    if request.param == "server" and "ORION_TEST_QDRANT_URL" not in os.environ:
        pytest.skip(_NO_SERVER)
    return request.param


@pytest.fixture(scope="session")
async def told(kind: str, sparse: SparseEncoder, stand_in: QdrantStandIn) -> AsyncIterator[MemoryIndex]:
    """An index of all the memories, to be read only: making one takes most of a second."""
    async with opened(kind, sparse, stand_in) as one:
        await one.apply(changes(*ALL))
        yield one


@pytest.fixture
async def index(kind: str, sparse: SparseEncoder, stand_in: QdrantStandIn) -> AsyncIterator[MemoryIndex]:
    """An index of all the memories, to be written to."""
    async with opened(kind, sparse, stand_in) as one:
        await one.apply(changes(*ALL))
        yield one


async def everything(index: MemoryIndex) -> set[int]:
    vector = (await HashingEmbedder().embed_query("anything")).tolist()
    return {found for found, _ in await index.search_dense(vector, Scope(tenant=TENANT), 100, -1.0)}


async def test_both_arms_find_what_shares_words_with_the_question(told: MemoryIndex):
    assert (await dense(told, "harbour crane gearbox"))[0] == "crane"
    assert (await lexical(told, "which gearboxes"))[0] == "crane"
    assert await lexical(told, "zeppelin") == []
    assert await lexical(told, "the of and") == []


async def test_dense_hits_below_the_threshold_are_left_out(told: MemoryIndex):
    vector, scope = (await HashingEmbedder().embed_query("harbour crane gearbox")).tolist(), Scope(tenant=TENANT)
    found = await told.search_dense(vector, scope, 10, -1.0)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert await told.search_dense(vector, scope, 10, found[0][1] - 1e-3) == found[:1]


NOBODY, BOTH = set[str](), {"Ana", "Bo"}


@pytest.mark.parametrize(
    ("parts", "seen", "speakers"),
    [
        ({}, {"crane", "order", "shed"}, BOTH),
        ({"session_id": "s1"}, {"crane", "order"}, BOTH),
        ({"user_id": "u1"}, {"crane", "shed"}, {"Bo"}),
        ({"agent_id": "scout"}, {"crane", "shed"}, {"Bo"}),
        ({"agent_id": "scout", "run_id": "r2"}, {"shed"}, {"Bo"}),
        ({"run_id": "r9"}, NOBODY, NOBODY),
        ({"kinds": ("observation", "plan")}, {"crane"}, BOTH),
        ({"tags": ("order", "boat")}, {"order"}, {"Ana"}),
        ({"since": NOW - 60}, {"order"}, BOTH),
        ({"until": NOW - 60}, {"crane"}, BOTH),
        ({"as_of": NOW - 60}, {"crane", "shed"}, {"Bo"}),
        ({"since": NOW - 100, "until": NOW - 50}, {"crane"}, BOTH),
        ({"session_id": "s1", "user_id": "u1", "tags": ("harbour",)}, {"crane"}, {"Bo"}),
        ({"session_id": "nowhere"}, NOBODY, NOBODY),
        ({"since": 0.0, "until": 0.0, "session_id": "s2"}, NOBODY, {"Bo"}),
    ],
    ids=id_of,
)
async def test_every_part_of_a_scope_filters_both_arms_and_of_ids_and_tags_the_speakers(
    told: MemoryIndex, parts: dict[str, Any], seen: set[str], speakers: set[str]
):
    scope = Scope(tenant=TENANT, **parts)
    assert set(await dense(told, "crane", scope)) == seen
    assert set(await lexical(told, "crane gearbox ordered shed", scope)) == seen
    assert await told.speakers(scope) == speakers
    assert await told.speakers(Scope(tenant="nobody", **parts)) == frozenset()


async def test_tenants_never_see_each_other(told: MemoryIndex):
    other = Scope(tenant="other")
    vector = (await HashingEmbedder().embed_query("harbour crane gearbox")).tolist()
    terms = SparseEncoder().encode_query("harbour crane gearbox")
    for scope, own in ((Scope(tenant=TENANT), OURS), (other, (THEIRS,)), (Scope(tenant=""), ())):
        mine = {key(one.id, one.tenant) for one in own}
        assert {found for found, _ in await told.search_dense(vector, scope, 10, -1.0)} == mine
        for hits in await told.search_sparse(terms, scope, 10):
            assert {found for found, _ in hits} <= mine
    for tenant, speakers in ((TENANT, {"Ana", "Bo"}), ("other", {"Eve"}), ("nobody", set[str]())):
        assert await told.speakers(Scope(tenant=tenant)) == speakers
    assert [label for label, _ in await told.find_entities("secret crane", "other", 5)] == ["Secret Crane"]
    assert "Secret Crane" not in [label for label, _ in await told.find_entities("secret crane", TENANT, 5)]


async def test_words_of_another_tenant_change_no_score(index: MemoryIndex):
    asked, scope = SparseEncoder().encode_query("harbour crane gearbox Fjord"), Scope(tenant=TENANT)
    before = await index.search_sparse(asked, scope, 10), await index.find_entities("harbour crane", TENANT, 5)
    assert all(before[0]) and before[1]
    fields: dict[str, Any] = {"tenant": "another", "entities": ["harbour crane"]}
    theirs = [memory(f"t{number}", "The harbour crane of Fjord has a gearbox.", **fields) for number in range(30)]
    await index.apply(changes(*theirs, start=20))
    after = await index.search_sparse(asked, scope, 10), await index.find_entities("harbour crane", TENANT, 5)
    assert after == before
    await index.remove([key(one.id, one.tenant) for one in theirs])
    assert await index.search_sparse(asked, scope, 10) == before[0]


async def test_memories_are_fetched_whole_and_unknown_keys_are_left_out(told: MemoryIndex):
    seen = await told.fetch([key("order"), key("nobody")])
    assert set(seen) == {key("order")}
    view = seen[key("order")]
    assert (view.id, view.text, view.speaker, view.tags) == ("order", ORDER.text, "Ana", ("order",))
    assert view.beside == (key("crane"),)
    assert await told.fetch([]) == {}


async def test_a_changed_memory_leaves_nothing_of_what_it_was(index: MemoryIndex):
    crane = replace(
        memory("crane", "The ferry needs a new rudder.", session_id="s1", speaker="Cy", entities=["Ferry"]),
        version=2,
    )
    for _ in range(2):
        await index.apply(changes(crane, ORDER, start=10))
        assert await lexical(index, "gearbox") == []
        assert await lexical(index, "rudder") == ["crane", "order"]
        assert (await index.fetch([key("crane")]))[key("crane")].text == crane.text
        assert [label for label, _ in await index.find_entities("harbour crane", TENANT, 5)] == []
        assert [label for label, _ in await index.find_entities("ferry", TENANT, 5)] == ["ferry"]
        assert (await index.held())[key("crane")] == 2
    assert [label for label, _ in await index.find_entities("crane", "other", 5)] == ["Secret Crane"]


async def test_a_deleted_memory_is_found_nowhere(index: MemoryIndex):
    for _ in range(2):
        await index.apply(changes(replace(CRANE, deleted_at=NOW, version=2), start=10))
        await index.apply(changes(ORDER, start=11))
        assert await everything(index) == {key("order"), key("shed")}
        assert await lexical(index, "harbour crane gearbox") == []
        assert await index.fetch([key("crane")]) == {}
        assert [label for label, _ in await index.find_entities("harbour crane", TENANT, 5)] == []
        assert set(await index.held()) == {key("order"), key("shed"), key("crane", "other")}
    assert index.position == 11


async def test_a_name_that_others_give_stays_when_one_that_gave_it_goes(index: MemoryIndex):
    other = memory("visit", "We saw the harbour crane.", entities=["harbour crane"])
    await index.apply(changes(other, start=10))
    await index.apply(changes(replace(CRANE, superseded_by="x", version=2), start=11))
    assert len(await index.find_entities("harbour crane", TENANT, 5)) == 1


async def test_what_the_record_does_not_know_can_be_taken_out(index: MemoryIndex):
    position = index.position
    await index.remove([key("crane"), key("nobody")])
    assert await everything(index) == {key("order"), key("shed")}
    assert [label for label, _ in await index.find_entities("harbour crane", TENANT, 5)] == []
    assert index.position == position


async def test_the_same_changes_again_change_nothing(index: MemoryIndex):
    before = await snapshot(index)
    await index.apply(changes(*ALL))
    assert await snapshot(index) == before


async def test_hostile_texts_are_kept_and_found(index: MemoryIndex):
    texts = ['"} OR tenant:other {', "zeppelin\x01\ufffd", "<|im_start|>", "👩🏽 " * 40, "a" * 9000]
    hostile: list[Memory] = [
        memory(f"h{place}", text, speaker=text[:200], tags=[text[:200]], entities=[text[:200]])
        for place, text in enumerate(texts)
    ]
    await index.apply(changes(*hostile, start=10))
    seen = await index.fetch([key(one.id) for one in hostile])
    assert {view.id: view.text for view in seen.values()} == {one.id: one.text for one in hostile}
    scope = Scope(tenant=TENANT, tags=('"} OR tenant:other {',))
    found = await LexicalSource(index, SparseEncoder()).search(request("tenant other crane", scope=scope))
    assert [hit.key for hit in found] == [key("h0")]


async def test_a_memory_that_comes_twice_in_one_batch_is_as_it_was_last(index: MemoryIndex):
    first = memory("twice", "zeppelin")
    await index.apply([*changes(first, start=5), *changes(replace(first, title="Balloon"), start=6)])
    assert (await index.fetch([key("twice")]))[key("twice")].title == "Balloon"
    assert await lexical(index, "balloon", memories=[first]) == ["twice"]
    assert index.position == 6


@pytest.mark.parametrize("kind", KINDS[1:], indirect=True)
@pytest.mark.slow
async def test_a_server_finds_the_same_twenty_as_the_embedded_index(
    kind: str, sparse: SparseEncoder, stand_in: QdrantStandIn
):
    words = "harbour crane gearbox shed boat dentist winter letter lantern gull".split()
    many = [
        memory(
            f"m{number}",
            " ".join(words[(number * step) % len(words)] for step in range(1, 3 + number % 11)) + f" item{number}",
            speaker=("Ana", "Bo", "Cy")[number % 3],
            session_id=f"s{number % 9}",
            tags=[f"t{number % 4}"],
            entities=[f"{words[number % len(words)]} {number % 7}"],
            occurred_at=NOW - 1000 * number,
            tenant=(TENANT, "other")[number % 5 == 4],
        )
        for number in range(300)
    ]
    steps = changes(*many)
    async with opened("edge", sparse, stand_in) as embedded, opened(kind, sparse, stand_in) as served:
        for one in (embedded, served):
            for start in range(0, len(steps), 100):
                await one.apply(steps[start : start + 100])
        scopes = [
            Scope(tenant=TENANT),
            Scope(tenant=TENANT, session_id="s3"),
            Scope(tenant=TENANT, tags=("t1", "t2"), since=NOW - 200_000),
        ]
        for question in ("the harbour crane's gearbox", "a letter to the dentist", "gulls in winter item17"):
            vector = (await HashingEmbedder().embed_query(question)).tolist()
            terms = sparse.encode_query(question)
            for scope in scopes:
                wide = [await one.search_dense(vector, scope, 300, 0.05) for one in (embedded, served)]
                assert_same_order(*wide)
                both = [await one.search_sparse(terms, scope, 300) for one in (embedded, served)]
                for mine, theirs in zip(*both, strict=True):
                    assert_same_order(mine, theirs)
            entities = [await one.find_entities(question, TENANT, 300) for one in (embedded, served)]
            assert_same_order(*entities)
        keys = [key(one.id) for one in many[:50]]
        assert await embedded.fetch(keys) == await served.fetch(keys)
        assert await embedded.speakers(Scope(tenant=TENANT)) == await served.speakers(Scope(tenant=TENANT))


def assert_same_order(mine: Any, theirs: Any) -> None:
    """The same twenty first, by the order that recall gives them: score to 1e-4, then key."""
    first = [sorted(found, key=lambda hit: (-round(hit[1], 4), hit[0]))[:20] for found in (mine, theirs)]
    assert len(first[0]) > 0
    assert [name for name, _ in first[0]] == [name for name, _ in first[1]]
    assert [score for _, score in first[0]] == pytest.approx([score for _, score in first[1]], abs=1e-4)


async def test_a_merged_name_finds_the_other_until_it_is_taken_apart(index: MemoryIndex):
    (bob,) = changes(memory("bob", "x", entities=["Bob"]), start=index.position + 1)
    merged = MergedName(label="Robert Miles", aliases=("Bob",))
    robert = replace(bob, memory=replace(bob.memory, entities=("Robert Miles",)), merged=(merged,))

    async def found(text: str) -> list[str]:
        return [label for label, _ in await index.find_entities(text, TENANT, 5)]

    await index.apply([bob])
    assert (await found("Bob"), await found("Robert")) == (["Bob"], [])
    assert await index.names_sharing_words("Bob", TENANT, 5) == [("Bob",)]
    for _ in range(2):
        await index.apply([robert])
        assert await found("Bob") == await found("Robert") == ["Robert Miles"]
        assert await index.names_sharing_words("Bob", TENANT, 5) == [("Robert Miles", "Bob")]
    await index.apply([bob])
    assert (await found("Bob"), await found("Robert")) == (["Bob"], [])


async def test_memories_are_found_by_any_name_of_their_title_in_scope_alone(index: MemoryIndex):
    titled = (
        memory("umbra", "It makes cranes.", title="Umbra Works (company)", session_id="s1"),
        memory("bergen", "A city.", title="Bergen", kind="world"),
        memory("secret", "Not yours.", title="Bergen", tenant="other"),
        memory("plain", "Bergen is no title here."),
    )
    await index.apply(changes(*titled, start=index.position + 1))
    ours = Scope(tenant=TENANT)
    names = ["umbra works", "bergen", "nothing"]
    assert await index.titled(names, ours, 10) == {
        key("umbra"): ["umbra works company", "umbra works"],
        key("bergen"): ["bergen"],
    }
    assert set(await index.titled(names, replace(ours, kinds=("world",)), 10)) == {key("bergen")}
    assert set(await index.titled(names, replace(ours, session_id="s1"), 10)) == {key("umbra")}
    assert len(await index.titled(names, ours, 1)) == 1
    assert await index.titled([], ours, 10) == {}
    renamed = replace(titled[1], title="Oslo", version=2)
    await index.apply(changes(renamed, start=index.position + 1))
    assert set(await index.titled(names, ours, 10)) == {key("umbra")}


async def test_the_vectors_of_memories_are_given_by_key(index: MemoryIndex):
    one = memory("umbra", "It makes cranes.")
    await index.apply(changes(one, start=index.position + 1))
    found = await index.vectors([key("umbra"), key("nobody")])
    assert set(found) == {key("umbra")}
    (written,) = await HashingEmbedder().embed_documents([dense_forms(one)[0]])
    assert float(np.dot(found[key("umbra")], written) / np.linalg.norm(written)) == pytest.approx(1.0, abs=1e-5)


async def test_dated_memories_of_a_scope_are_listed_by_their_time(index: MemoryIndex):
    at = [NOW + days * 86_400.0 for days in range(5)]
    when = [datetime.fromtimestamp(moment, UTC) for moment in at]
    dated = (
        memory("third", "c", mentioned_at=when[3], session_id="two"),
        memory("first", "a", mentioned_at=when[1], session_id="one"),
        memory("second", "b", mentioned_at=when[2], session_id="one", kind="world"),
        memory("fourth", "d", mentioned_at=when[4]),
        memory("theirs", "e", mentioned_at=when[2], tenant="other"),
        memory("undated", "f"),
    )
    await index.apply(changes(*dated, start=index.position + 1))
    ours, after = Scope(tenant=TENANT, since=at[1], until=at[4]), Scope(tenant=TENANT, since=at[1])

    async def listed(scope: Scope, limit: int = 10, *, newest_first: bool = False, without: Sequence[str] = ()):
        found = await index.in_time_order(scope, limit, newest_first=newest_first, without_sessions=without)
        return [one.key for one in found]

    first, second, third, fourth = (key(name) for name in ("first", "second", "third", "fourth"))
    assert await listed(ours) == [first, second, third]  # from the first moment up to, and without, the last
    assert await listed(ours, 2) == [first, second]
    assert await listed(ours, 2, newest_first=True) == [third, second]
    assert await listed(replace(ours, kinds=("world",))) == [second]
    assert await listed(ours, without=["one"]) == [third]
    assert await listed(after, without=["one", "two"]) == [fourth]
    sessions = ["one", "one", "two", None]
    found = await index.in_time_order(after, 10)
    assert [(one.ts, one.session_id) for one in found] == list(zip(at[1:], sessions, strict=True))
    everything = await listed(Scope(tenant=TENANT), 1000)
    assert key("undated") not in everything
    assert everything[-4:] == [first, second, third, fourth]


async def test_entities_are_found_by_the_vectors_of_their_names_in_their_tenant_alone(told: MemoryIndex):
    async def near(text: str, tenant: str = TENANT, limit: int = 5) -> list[tuple[str, float]]:
        return list(await told.names_near((await HashingEmbedder().embed_query(text)).tolist(), tenant, limit))

    (best, *others) = await near("harbour crane")
    assert (best[0].casefold(), round(best[1], 4)) == ("harbour crane", 1.0)
    assert "Fjord Labs" in [label for label, _ in others]
    assert "Secret Crane" not in [label for label, _ in others]
    assert (await near("secret crane", "other"))[0][0] == "Secret Crane"
    assert len(await near("harbour crane", limit=1)) == 1


async def test_memories_are_found_by_the_times_that_their_texts_tell(
    kind: str, sparse: SparseEncoder, stand_in: QdrantStandIn
):
    said = datetime(2026, 11, 22, 12, tzinfo=UTC)
    texts = {
        "vet": "The vet is on Friday at 9:30.",
        "choir": "The choir sings every Tuesday.",
        "lease": "The lease runs until 31 March.",
        "other": "On 4 May 2021 the roof leaked, and on 6 May 2021 it was mended.",
        "none": "The shed is green.",
    }
    memories = [memory(name, text, occurred_at=said) for name, text in texts.items()]

    def within(first: str, last: str) -> Scope:
        start, end = (datetime.fromisoformat(one).replace(tzinfo=UTC).timestamp() for one in (first, last))
        return Scope(tenant=TENANT, told=((start, end),))

    vector = (await HashingEmbedder().embed_query("anything")).tolist()
    names = {key(name): name for name in texts}

    async with opened(kind, sparse, stand_in) as one:
        await one.apply(changes(*memories))
        for scope, expected in (
            (within("2026-11-27", "2026-11-28"), {"vet", "lease"}),
            (within("2026-11-27T10:00", "2026-11-28"), {"lease"}),
            (within("2026-12-08", "2026-12-09"), {"choir", "lease"}),
            (within("2027-06-05", "2027-06-06"), set[str]()),
            (within("2027-06-01", "2027-07-01"), {"choir"}),
            (within("2021-05-05", "2021-05-06"), set[str]()),
            (Scope(tenant=TENANT, told=((None, 1.7e9),)), {"other"}),
            (Scope(tenant=TENANT, told=((1.81e9, None),)), {"choir"}),
        ):
            found = await one.search_dense(vector, scope, 10, -1.0)
            assert {names[number] for number, _ in found} == expected
        terms = SparseEncoder().encode_query("vet choir lease")
        own, _ = await one.search_sparse(terms, within("2026-11-27", "2026-11-28"), 10)
        assert {names[number] for number, _ in own} == {"vet", "lease"}
        view = (await one.fetch([key("choir")]))[key("choir")]
        assert [told.weekly for told in view.told] == [True]
        assert (await one.fetch([key("none")]))[key("none")].told == ()
