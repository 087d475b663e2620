"""Names that are merged: what index and graph show then, and that undoing it leaves no trace in them."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import qdrant_edge as qe

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.names.merges import Merged, Merges, WantedMerge, propose
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.values import Change, Memory
from tests.stand_ins.memory_changes import MemoryChanges

pytestmark = pytest.mark.slow

TENANT = "default"
TOLD = [
    {"id": "boat", "text": "Bob sold the sailing boat.", "entities": ["Bob"]},
    {"id": "lab", "text": "He works at Fjord Labs.", "speaker": "Bob", "entities": ["Fjord Labs"]},
    {"id": "crane", "text": "Robert Miles repaired the crane.", "entities": ["Robert Miles"]},
    {"id": "ana", "text": "Ana moved to Oslo.", "entities": ["Ana", "Oslo"]},
    {"id": "both", "text": "Robert Miles slept beside BOB.", "entities": ["Robert Miles", "BOB"]},
]
Held = dict[int, tuple[Any, Any]]


def memory(fields: dict[str, Any], tenant: str = TENANT) -> Memory:
    return compose(MemoryV1.model_validate(fields), tenant)


@pytest.fixture
async def record(pool: Pool) -> Record:
    """A record of what is told."""
    record = Record(pool)
    await record.store([memory(one) for one in TOLD])
    return record


@pytest.fixture
def merges(pool: Pool) -> Merges:
    return Merges(pool)


@pytest.fixture(scope="module")
async def embedder() -> AsyncGenerator[OnnxEmbedder]:
    """The default model, loaded once."""
    one = OnnxEmbedder()
    await one.load()
    yield one
    await one.close()


@asynccontextmanager
async def opened(folder: Path, embedder: OnnxEmbedder) -> AsyncGenerator[EdgeIndex]:
    one = EdgeIndex(folder / "index", embedder, SparseEncoder())
    await one.open()
    try:
        yield one
    finally:
        await one.close()


async def catch_up(record: Record, index: EdgeIndex) -> None:
    await Projector(record, index, copy="test").catch_up()


def held(index: EdgeIndex) -> Held:
    """Every point by key: payload and vectors; dense ones rounded, for they are normalised whenever written."""
    shard = index._live.checked()  # pyright: ignore[reportPrivateUsage]
    records, rest = shard.scroll(qe.ScrollRequest(limit=1000, with_payload=True, with_vector=True))
    assert rest is None
    found: Held = {}
    for one in records:
        vectors: dict[str, Any] = {}
        for name, vector in cast("dict[str, Any]", one.vector).items():
            if name == "tokens":
                vectors[name] = len(vector)
            elif name in ("dense", "name"):
                vectors[name] = [round(value, 5) for value in vector]
            else:
                vectors[name] = sorted(zip(vector.indices, vector.values, strict=True))
        found[cast("int", one.id)] = (one.payload, vectors)
    return found


async def anew(record: Record, embedder: OnnxEmbedder) -> Held:
    """What an index holds that is made of the record now."""
    with tempfile.TemporaryDirectory(prefix="orion-test-", dir="/tmp") as made:
        async with opened(Path(made), embedder) as index:
            await catch_up(record, index)
            return held(index)


async def into(merges: Merges, canonical: str, *aliases: str, **fields: Any) -> Merged:
    kind = fields.pop("kind", "entity")
    wanted = [WantedMerge(kind=kind, alias=alias, into=canonical) for alias in aliases]
    return await merges.merge(fields.pop("tenant", TENANT), wanted, **fields)


async def told(record: Record) -> dict[str, Change]:
    return {change.memory.id: change for change in await record.changes(0, 1000)}


async def found(index: EdgeIndex, text: str, tenant: str = TENANT) -> list[str]:
    return [label for label, _ in await index.find_entities(text, tenant, 5)]


async def test_a_merged_name_is_shown_as_the_other_and_found_by_both(
    record: Record, merges: Merges, embedder: OnnxEmbedder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of many memories: told in several statements.
    monkeypatch.setattr("orion_recall.memory.names.merges._AT_ONCE", 2)
    async with opened(folder, embedder) as index:
        await catch_up(record, index)
        before = held(index)
        labels = {payload.get("label") for payload, _ in before.values()}
        assert {"Bob", "Robert Miles"} <= labels
        done = await into(merges, "Robert Miles", "bob", actor="mo")
        assert (done.memories, done.position) == (3, await record.head())
        await catch_up(record, index)
        assert await found(index, "Bob") == await found(index, "Robert") == ["Robert Miles"]
        shown = {payload["id"]: payload for payload, _ in held(index).values() if "id" in payload}
        assert shown["boat"]["entities"] == ["Robert Miles"]
        assert shown["boat"]["names"] == ["robert miles"]
        assert shown["both"]["entities"].count("Robert Miles") == 1
        assert (shown["lab"]["speaker"], shown["lab"]["names"]) == ("Bob", ["fjord labs", "robert miles"])
        assert "bob" not in json.dumps([payload.get("names") for payload, _ in held(index).values()])
        assert held(index) == await anew(record, embedder)
        # The record says what was said.
        assert (await record.get(TENANT, ["boat"]))["boat"].entities == ("Bob",)
        undone = await merges.undo(TENANT, [done.verdicts[0].id or 0])
        assert (undone.verdicts[0].status, undone.memories) == ("undone", 3)
        await catch_up(record, index)
        assert held(index) == before


async def test_a_memory_that_is_changed_or_deleted_after_a_merge_leaves_nothing_behind(
    record: Record, merges: Merges, pool: Pool, embedder: OnnxEmbedder, folder: Path
) -> None:
    memory_changes = MemoryChanges(pool)
    async with opened(folder, embedder) as index:
        await catch_up(record, index)
        done = await into(merges, "Robert Miles", "Bob")
        await catch_up(record, index)
        await memory_changes.update(
            TENANT, [Patch(id="ana", changes={"text": "Ana met Bob.", "entities": ["Bob"]})]
        )
        await memory_changes.delete(TENANT, ["crane", "both"])
        await catch_up(record, index)
        assert (await told(record))["ana"].memory.entities == ("Ana", "Robert Miles")
        assert held(index) == await anew(record, embedder)
        assert await found(index, "Bob") == ["Robert Miles"]
        await memory_changes.delete(TENANT, ["ana", "boat", "lab"])
        await catch_up(record, index)
        assert held(index) == {}
        undone = await merges.undo(TENANT, [done.verdicts[0].id or 0])
        assert (undone.verdicts[0].status, undone.memories, undone.position) == ("undone", 0, None)


async def test_a_name_that_others_are_merged_into_is_merged_only_after_they_are_apart(
    record: Record, merges: Merges
) -> None:
    first = (await into(merges, "Robert Miles", "Bob")).verdicts[0].id or 0
    for alias, canonical, why in (
        ("Robert Miles", "R. J. Miles", f"'Bob' is merged into it: undo {first} first"),
        ("Ana", "bob", "'bob' is merged into 'Robert Miles': merge into that one"),
        ("Bob", "Ana", f"it is merged into 'Robert Miles' already: undo {first} first"),
    ):
        (verdict,) = (await into(merges, canonical, alias)).verdicts
        assert (verdict.status, verdict.id) == ("conflict", first)
        assert why in (verdict.reason or "")
    await merges.undo(TENANT, [first])
    done = await into(merges, "R. J. Miles", "Robert Miles", "Bob")
    assert [one.status for one in done.verdicts] == ["merged", "merged"]
    assert (await told(record))["boat"].memory.entities == ("R. J. Miles",)
    assert [one.undone_at is None for one in await merges.of(TENANT, undone=True)] == [False, True, True]


async def test_what_cannot_be_merged_is_judged_alone(record: Record, merges: Merges) -> None:
    before = await record.head()
    done = await merges.merge(
        TENANT,
        [
            WantedMerge(kind="entity", alias="Bob", into="BOB"),
            WantedMerge(kind="entity", alias="Nobody", into="No One"),
            WantedMerge(kind="entity", alias="Bob", into=" "),
            WantedMerge(kind="entity", alias="Bob", into="x" * 513),
            WantedMerge(kind="entity", alias="B\x00b", into="Bob"),
            WantedMerge(kind="entity", alias="Bob", into="Robert Miles"),
            WantedMerge(kind="entity", alias="bob", into="robert miles"),
            WantedMerge(kind="entity", alias="Bob", into="Ana"),
        ],
    )
    assert [one.status for one in done.verdicts] == [*["conflict"] * 5, "merged", "unchanged", "conflict"]
    assert [one.reason is None for one in done.verdicts] == [*[False] * 5, True, True, False]
    assert done.verdicts[5].id == done.verdicts[6].id
    assert await record.head() > before
    again = await into(merges, "Robert Miles", "Bob")
    assert (again.verdicts[0].status, again.position) == ("unchanged", None)
    missing = await merges.undo(TENANT, [4711])
    assert (missing.verdicts[0].status, missing.position) == ("missing", None)


async def test_the_history_tells_of_a_merge_and_of_its_undoing_without_a_new_version(
    record: Record, merges: Merges, pool: Pool
) -> None:
    memory_changes = MemoryChanges(pool)
    number = (await into(merges, "Robert Miles", "Bob", actor="mo")).verdicts[0].id
    await merges.undo(TENANT, [number or 0], actor="li")
    await memory_changes.update(TENANT, [Patch(id="boat", changes={"text": "Bob rows."})])
    steps = await memory_changes.history(TENANT, "boat")
    assert [(step.version, step.op, step.actor, step.lineage) for step in steps] == [
        (1, "add", None, {}),
        (1, "merge", "mo", {"merged": [number]}),
        (1, "merge", "li", {"undone": [number]}),
        (2, "update", None, {}),
    ]
    texts = [step.after["text"] for step in steps if step.after is not None]
    assert texts == [*["Bob sold the sailing boat."] * 3, "Bob rows."]
    await memory_changes.delete(TENANT, ["boat"], erase=True)
    async with borrow(pool) as connection:
        left = await connection.fetchval(
            "SELECT count(*) FROM memory_history h WHERE memory_id = 'boat' AND h::text ILIKE '%bob%'"
        )
    assert left == 0


async def test_a_merge_is_its_tenants_own(record: Record, merges: Merges, embedder: OnnxEmbedder) -> None:
    await record.store([memory(one, "other") for one in TOLD])
    await record.store([memory({"id": "x", "text": "Fjord-Labs grew.", "entities": ["Fjord-Labs"]}, "other")])
    await into(merges, "Robert Miles", "Bob")
    changes = await record.changes(0, 1000)
    assert {change.memory.entities for change in changes if change.memory.id == "boat"} == {
        ("Robert Miles",),
        ("Bob",),
    }
    assert all(not change.merged for change in changes if change.memory.tenant == "other")
    number = (await merges.of(TENANT))[0].id
    assert (await merges.undo("other", [number])).verdicts[0].status == "missing"
    proposed = {
        tenant: [
            (one.alias, one.into)
            for one in await propose(await merges.names(tenant, "entity"), embedder, tenant=tenant, kind="entity")
        ]
        for tenant in (TENANT, "other")
    }
    assert proposed == {TENANT: [], "other": [("Fjord-Labs", "Fjord Labs")]}


async def test_the_command_proposes_merges_lists_and_undoes(
    record: Record,
    merges: Merges,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await record.store([memory({"id": "x", "text": "Fjord-Labs grew.", "entities": ["Fjord-Labs"]})])
    monkeypatch.setenv("ORION_POSTGRES_DSN", database)

    async def command(*arguments: str) -> tuple[int, Any]:
        code = await asyncio.to_thread(run, ["memory", "merge", *arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    code, dry = await command()
    (proposal,) = dry["proposals"]
    assert (code, proposal["alias"], proposal["into"]) == (0, "Fjord-Labs", "Fjord Labs")
    assert (proposal["alias_memories"], proposal["examples"]) == (1, ["x", "lab"])
    assert await merges.of(TENANT) == []
    assert (await command("--apply", "0000000000"))[0] == 1
    code, done = await command("--apply", proposal["id"])
    assert (code, done["verdicts"][0]["status"], done["memories"]) == (0, "merged", 1)
    (kept,) = await merges.of(TENANT)
    assert kept.scores == {"string": proposal["string"], "cosine": proposal["cosine"]}
    code, done = await command("--into", "Robert Miles", "Bob", "Ana", "Nobody", "--actor", "mo")
    assert (code, [one["status"] for one in done["verdicts"]]) == (0, ["merged", "merged", "merged"])
    numbers = [str(one["id"]) for one in done["verdicts"]]
    code, listed = await command("--list")
    assert [one["alias"] for one in listed["merges"]] == ["Nobody", "Ana", "Bob", "Fjord-Labs"]
    code, done = await command("--undo", *numbers)
    assert (code, [one["status"] for one in done["verdicts"]]) == (0, ["undone"] * 3)
    assert (await command("--undo", "4711"))[0] == 1
    assert (await command("--undo", str(kept.id)))[0] == 0
    for wrong in (["--apply"], ["Bob"], ["--undo", "x"], ["--undo"]):
        code, error = await command(*wrong)
        assert (code, error["error"]["type"]) == (2, "SettingsError"), wrong
    assert await asyncio.to_thread(run, ["memory", "merge"]) == 0
    assert "1 merge proposed" in capsys.readouterr().err
    assert await asyncio.to_thread(run, ["memory", "merge", "--list", "--kind", "entity"]) == 0
    assert "Robert Miles" in capsys.readouterr().out
