"""The record into files and back, and memories as lines for an import."""

from __future__ import annotations

import asyncio
import itertools
import json
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1
from orion_recall.errors import BackupError, RecordError
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.backup import DECISIONS, KEPT, back_up, restore
from orion_recall.memory.transfer.importer import ImportMapping, read_batches
from orion_recall.postgres.pool import Pool, borrow, open_pool
from orion_recall.tasks import cancel
from tests.stand_ins.memory_changes import MemoryChanges

TENANT = "acme"
LEFT_OUT = {
    "orion_migrations": "the schema is made by the one who restores; the manifest says which it was",
    "projections": "copies say themselves how far they have come",
    "write_locks": "locks, of which nothing is read",
    "copy_requests": "nobody waits for the answers any more",
}
HOSTILE = 'a "quoted" \\backslash\\ \\N \\. line\nbreak\ttab\r\u2028 {brace} £ \U0001f30a'


@pytest.fixture
async def record(pool: Pool) -> Record:
    """Memories that were changed, replaced and deleted, with accesses, feedback and an answered request."""
    record, memory_changes = Record(pool), MemoryChanges(pool)
    await record.store([memory(f"m{number}", f"Ana oiled crane {number}.") for number in range(6)])
    await record.store([memory("hostile", HOSTILE, title=HOSTILE[:40], metadata={"deep": [1, {"x": HOSTILE}]})])
    await memory_changes.update(TENANT, [Patch(id="m1", changes={"text": "Bo painted the boat."})], actor="bo")
    await memory_changes.delete(TENANT, ["m2"], why="asked")
    await record.store([memory("m9", "Ana oiled all cranes.", supersedes=["m3"])])
    await record.touch(TENANT, ["m0", "m0", "m1"])
    async with borrow(pool) as connection:
        await connection.execute("INSERT INTO recall_feedback (tenant, used) VALUES ('acme', ARRAY['m0'])")
        await connection.execute("INSERT INTO memory_requests VALUES ('acme', 'key', 'hash', '{\"stored\": 1}')")
        await connection.execute(
            "INSERT INTO recall_decisions (id, corr_id, profile, query, latency_ms, created_at, outcome) "
            "VALUES ($1, 'c', 'p', 'q', 1, now(), 'ok')",
            uuid4(),
        )
    return record


def memory(name: str, text: str, **fields: Any) -> Any:
    return compose(MemoryV1.model_validate({"id": name, "text": text, "session_id": "s", **fields}), TENANT)


async def contents(pool: Pool, names: Any = KEPT) -> dict[str, list[str]]:
    async with borrow(pool) as connection:
        return {
            table.name: [
                json.dumps(row[0], sort_keys=True)
                for row in await connection.fetch(f"SELECT to_jsonb(t) FROM {table.name} t ORDER BY {table.order}")
            ]
            for table in names
        }


async def test_no_table_is_forgotten(pool: Pool) -> None:
    async with borrow(pool) as connection:
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        serial = await connection.fetch(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND column_default LIKE 'nextval(%'"
        )
    kept = {table.name for table in (*KEPT, *DECISIONS)}
    assert {row["tablename"] for row in rows} == kept | set(LEFT_OUT), "list it in memory/transfer/backup.py"
    numbered = {(row["table_name"], row["column_name"]) for row in serial if row["table_name"] in kept}
    assert numbered == {(table.name, table.serial) for table in KEPT if table.serial}


async def test_what_was_backed_up_comes_back_as_it_was(
    record: Record, pool: Pool, database: str, empty_database: str, tmp_path: Path
) -> None:
    target = tmp_path / "backup.zip"
    before = await contents(pool, (*KEPT, *DECISIONS))
    made = await back_up(database, target, with_decisions=True)
    assert target.stat().st_mode & 0o077 == 0, "memories are in it"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert {table.name: table.rows for table in made.tables} == {key: len(rows) for key, rows in before.items()}
    assert (made.position, made.record) == (await record.head(), await record.database_identity())

    assert await restore(empty_database, target) == made
    other = await open_pool(empty_database, name="restored", max_size=2)
    try:
        assert await contents(other, (*KEPT, *DECISIONS)) == before
        restored = Record(other)
        assert await restored.database_identity() != await record.database_identity(), "it is a record of its own"
        head = await restored.head()
        stored = await restored.store([memory("after", "Bo came back.")])
        assert (stored.position or 0) > head, "numbers go on where they were"
        assert (await restored.store([memory("m2", "Ana oiled crane 2.")])).verdicts[0].status == "conflict"
        assert [step.op for step in await MemoryChanges(other).history(TENANT, "m1")] == ["add", "update"]
    finally:
        await other.close()
    with pytest.raises(BackupError, match=r"is there already"):
        await back_up(database, target)
    with pytest.raises(BackupError, match=r"not empty \(memories has rows\)"):
        await restore(empty_database, target)


async def test_a_backup_is_of_one_moment(record: Record, pool: Pool, database: str, tmp_path: Path) -> None:
    before = await contents(pool)

    async def store_meanwhile() -> None:
        for number in itertools.count():
            await record.store([memory(f"late{number}", "Too late, or not.")])

    storing = asyncio.create_task(store_meanwhile())
    made = await back_up(database, tmp_path / "b")
    await cancel(storing)
    more = {table.name: table.rows - len(before[table.name]) for table in made.tables}
    assert more["memories"] == more["memory_history"], "each memory has one row in both"


def changed(source: Path, target: Path, files: Mapping[str, bytes | None]) -> Path:
    """A backup like another one, with some of its files changed, or left out (None)."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as out:
        for name in archive.namelist():
            content = files.get(name, archive.read(name))
            if content is not None:
                out.writestr(name, content)
    return target


async def test_damaged_files_are_refused_before_anything_is_written(
    record: Record, database: str, empty_database: str, tmp_path: Path
) -> None:
    source = tmp_path / "b.zip"
    await back_up(database, source)
    content = source.read_bytes()
    with zipfile.ZipFile(source) as archive:
        place = archive.getinfo("outbox.copy").header_offset + 90
    (tmp_path / "wrong.zip").write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
    with pytest.raises(BackupError, match=r"wrong.zip: .*give a file|outbox.copy is not as it was written"):
        await restore(empty_database, tmp_path / "wrong.zip")
    with pytest.raises(BackupError, match=r"'memory_access.copy' in the archive.*: give a complete"):
        await restore(empty_database, changed(source, tmp_path / "less.zip", {"memory_access.copy": None}))
    (tmp_path / "bad.zip").write_text("text")
    (tmp_path / "folder").mkdir()
    manifests = {"list": b"[1]", "deep": b"[" * 200_000, "digits": b"9" * 9000, "nul": bytes(9), "nan": b"NaN"}
    for name, text in manifests.items():
        changed(source, tmp_path / f"{name}.zip", {"manifest.json": text})
    for name in ("none", "bad.zip", "folder", *(f"{name}.zip" for name in manifests)):
        with pytest.raises(BackupError, match=name):
            await restore(empty_database, tmp_path / name)
    pool = await open_pool(empty_database, name="test", max_size=1)
    with pytest.raises(RecordError):
        await Record(pool).head()  # not even a schema
    await pool.close()


@pytest.mark.parametrize("text", [b" ", b"[", b"{}", b"\xef\xbb\xbf"])
async def test_a_manifest_that_is_packed_small_and_large_is_not_unpacked(tmp_path: Path, text: bytes) -> None:
    source = tmp_path / "b.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", text * ((16 << 20) // len(text)))
    tracemalloc.start()
    try:
        with pytest.raises(BackupError, match=r"manifest.json is larger than 1048576 bytes"):
            await restore("postgresql://nobody@nowhere.invalid/none", source)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


async def test_a_backup_of_another_version_is_refused(
    record: Record, database: str, empty_database: str, tmp_path: Path
) -> None:
    source = tmp_path / "b.zip"
    await back_up(database, source)
    with zipfile.ZipFile(source) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    other = {**manifest["schema"], "memory/0099_later.sql": "0" * 64}
    for fields, why in (
        ({"schema": other, "version": "99.0"}, "made by version 99.0"),
        ({"format": 7}, "format 7"),
    ):
        told = {"manifest.json": json.dumps(manifest | fields).encode()}
        with pytest.raises(BackupError, match=why):
            await restore(empty_database, changed(source, tmp_path / f"{why}.zip", told))


async def test_an_export_is_what_an_import_takes(
    record: Record,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", database)
    fields = {"occurred_at": "2026-03-01T09:30:00+01:00", "tags": ["sea"], "confidence": 0.5, "speaker": "Mira"}
    await record.store([memory("dated", "Mira sailed.", kind="plan", entities=["Oslo"], **fields)])

    async def export(*arguments: str) -> list[str]:
        file = tmp_path / "out.jsonl"
        assert await asyncio.to_thread(run, ["memory", "export", str(file), *arguments]) == 0
        assert not list(tmp_path.glob("*.part"))
        return [json.loads(line)["id"] for line in file.read_text("utf-8").split("\n") if line]

    assert await export() == ["m0", "m1", "m4", "m5", "hostile", "m9", "dated"], "live ones, in order"
    (batch,) = read_batches(tmp_path / "out.jsonl", ImportMapping())
    assert not batch.problems
    again = [compose(MemoryV1.model_validate(one), "default") for one in batch.memories]
    kept = await record.get(TENANT, [one.id for one in again])
    for one in again:
        if one.id != "m9":  # which other it replaced is not told again
            assert (one.tenant, one.content_hash) == (TENANT, kept[one.id].content_hash)
    assert await export("--tenant", "other") == []
    assert await export("--kind", "plan", "--since", "2026-03-01T00:00:00Z") == ["dated"]
    assert await asyncio.to_thread(run, ["memory", "export", str(tmp_path / "no" / "where.jsonl")]) == 2
