"""Forgetting: what was said is gone from every file, table and stream, but for what the report names."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from executor import until
from serving import all_persisted, caught_up, serving

from orion_recall.bus.connect import connect
from orion_recall.cli.main import run
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import RecordError
from orion_recall.memory.forget.record import ForgetRecord
from orion_recall.postgres.address import quote_identifier
from orion_recall.postgres.pool import open_pool
from orion_recall.serving.backends import open_sources
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from tests.stand_ins.patient_profiles import patient_profiles

pytestmark = pytest.mark.slow


class Canary:
    """A word that occurs nowhere else, in every field of a memory that may hold words."""

    def __init__(self) -> None:
        self.word = f"zq{uuid4().hex[:12]}"
        self.id = f"m-{uuid4().hex[:8]}"

    def memory(self, **changes: Any) -> dict[str, Any]:
        word = self.word
        fields = {
            "id": self.id,
            "text": f"The {word} alarm code of the lighthouse is {word}seven, says {word.capitalize()} Lind.",
            "title": f"Code {word}",
            "speaker": f"{word.capitalize()} Lind",
            "session_id": f"s-{word}",
            "node_id": f"n-{word}",
            "user_id": f"u-{word}",
            "agent_id": f"a-{word}",
            "run_id": f"r-{word}",
            "tags": [f"t-{word}"],
            "entities": [f"{word.capitalize()} Lind", f"Harbour {word}"],
            "source": f"src-{word}",
            "uri": f"urn:{word}",
            "metadata": {f"k-{word}": f"v-{word}"},
            "mentioned_at": "2024-05-01T10:00:00Z",
        }
        return fields | changes


@pytest.fixture
def data_dir(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="orion-forget-", dir="/tmp"))
    folder.chmod(0o755)
    monkeypatch.setenv("ORION_DATA_DIR", str(folder / "data"))
    monkeypatch.setenv("ORION_TENANTS", "*")
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def up(data_dir: Path, **changes: Any) -> AsyncGenerator[tuple[Settings, Service, RecallClient]]:
    """What `up` runs on the folder: engines, a worker, and a caller."""
    async with EmbeddedEngines.start(data_dir) as engines:
        settings = Settings.read(
            data_dir=data_dir,
            redis_url=engines.redis_url,
            postgres_dsn=engines.postgres_dsn,
            look_every_s=0,
            deadline_ms=20_000,
            profiles_dir=patient_profiles(data_dir),
            **changes,
        )
        async with (
            open_sources(settings) as opened,
            serving(settings, opened) as (service, _),
            RecallClient.connect(engines.redis_url, service="test") as client,
        ):
            yield settings, service, client


async def stored(client: RecallClient, service: Service, *memories: dict[str, Any], **fields: Any) -> None:
    receipt = await client.store(memories, timeout_s=60, **fields)
    assert receipt.stored == len(memories), receipt
    assert receipt.position is not None
    await caught_up(service, receipt.position)


async def found(client: RecallClient, question: str, **options: Any) -> list[str]:
    """The ids of what a recall answers."""
    intent = options.pop("intent", None)
    reply = await client.recall(question, intent=intent, options=options or None, timeout_s=30)
    return [item.id for item in reply.bundle.items]


async def asked_on_the_shared_stream(settings: Settings, question: str) -> None:
    """A recall by an executor that reads the shared reply stream, where replies stay for some minutes."""
    async with connect(settings.bus_url or "") as redis:
        envelope = {"schema": "orion.envelope", "kind": "recall.query.v1", "id": str(uuid4())}
        await redis.xadd(
            settings.query_stream, {"envelope": json.dumps({**envelope, "payload": {"fragment": question}})}
        )

        async def answered() -> bool:
            return bool(await redis.xlen(settings.reply_stream))

        await until(answered, "a reply")


async def forget(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    done = await asyncio.to_thread(run, ["memory", "forget", "--json", *arguments])
    told = capsys.readouterr()
    assert done == code, told
    return json.loads(told.out)


def places(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["place"]: one for one in report["places"]}


def in_files(data_dir: Path, *words: str) -> set[str]:
    """The files that hold one of the words, in any spelling of its letters."""
    wanted = [word.lower().encode() for word in words]
    for _ in range(100):
        found: set[str] = set()
        try:
            for path in sorted(data_dir.resolve().rglob("*")):
                if path.is_file() and not path.is_symlink():
                    content = path.read_bytes().lower()
                    if any(word in content for word in wanted):
                        found.add(str(path.relative_to(data_dir.resolve())))
        except FileNotFoundError:  # a server has renamed or removed one: what it held may be in another one now
            continue
        return found
    raise AssertionError(f"{data_dir} does not come to rest")


async def in_tables(dsn: str, word: str) -> set[str]:
    """The tables that hold the word."""
    pool = await open_pool(dsn, name="test")
    try:
        tables = await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'orion_recall'")
        return {
            one["tablename"]
            for one in tables
            if await pool.fetchval(
                f"SELECT count(*) FROM {quote_identifier(one['tablename'])} AS t WHERE t::text ILIKE $1",
                f"%{word}%",
            )
        }
    finally:
        await pool.close()


async def in_streams(url: str, word: str) -> set[str]:
    async with connect(url) as redis:
        found: set[str] = set()
        async for key in redis.scan_iter():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if await redis.type(key) == b"stream" and word in repr(await redis.xrange(key)).lower():  # pyright: ignore[reportUnknownArgumentType]
                found.add(key.decode())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        return found


async def test_nothing_of_a_forgotten_memory_is_left_in_any_file_table_or_stream(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canary = Canary()
    others = [{"id": f"o{number}", "text": f"Crane {number} was oiled by Bo in Voss."} for number in range(30)]
    async with up(data_dir) as (settings, service, client):
        await stored(client, service, *others, canary.memory())
        question = f"what is the {canary.word} alarm code?"
        assert canary.id in await found(client, question)
        assert canary.id in await found(client, question, intent=f"intent {canary.word}")
        await asked_on_the_shared_stream(settings, question)
        await all_persisted(service)
        assert await in_streams(settings.bus_url or "", canary.word) == {
            settings.decision_stream,
            settings.reply_stream,
        }
        report = await forget(capsys, "--id", canary.id, "--yes")
        assert report["unfinished"] == []
        assert report["memories"] == 1
        assert await in_streams(settings.bus_url or "", canary.word) == set()
        assert await in_tables(settings.dsn or "", canary.word) == set()
        assert in_files(data_dir, canary.word) == set()
        assert canary.id not in await found(client, "what is the alarm code?")
        receipt = await client.store([canary.memory()], timeout_s=30)
        assert (receipt.stored, receipt.conflict) == (0, 1)


async def test_a_user_a_session_and_a_tenant_go_with_their_recalls_and_nothing_else_does(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    user, session, tenant, stays, other = Canary(), Canary(), Canary(), Canary(), Canary()
    acme = f"acme-{tenant.word}"
    async with up(data_dir) as (settings, service, client):
        await stored(client, service, user.memory(session_id="s-shared"), stays.memory(session_id="s-shared"))
        await stored(client, service, session.memory(user_id="u-shared"))
        await stored(client, service, tenant.memory(tenant=acme), other.memory(tenant="other"))
        await found(client, f"{user.word} of my own?", user=f"u-{user.word}", scope="user", tags=[user.word])
        await client.recall(f"{session.word} said here?", session_id=f"s-{session.word}", timeout_s=30)
        asked = await client.recall(f"{tenant.word} anything?", options={"tenant": acme, "user": "u"}, timeout_s=30)
        await found(client, f"alarm code {other.word}?", tenant="other")
        await all_persisted(service)
        decision, note = asked.bundle.stats.decision_id, f"note {tenant.word}"
        told = await client.feedback(decision_id=decision, note=note, tenant=acme, timeout_s=30)
        assert told.recorded
        report = await forget(capsys, "--user", f"u-{user.word}", "--yes")
        assert report["memories"] == 1
        assert places(report)["Postgres: decisions"]["gone"] >= 1
        report = await forget(capsys, "--session", f"s-{session.word}", "--yes", "--actor", "Bo")
        assert report["memories"] == 1
        report = await forget(capsys, "--tenant", acme, "--yes")
        assert report["memories"] == 1
        dsn, bus = settings.dsn or "", settings.bus_url or ""
        for one in (user, session):
            assert await in_tables(dsn, one.word) == set(), one
            assert await in_streams(bus, one.word) == set(), one
            assert in_files(data_dir, one.word) == set(), one
        # The tenant's name is what remains of it, where an id stays taken and figures are kept.
        left = {"memories", "memory_history", "memory_forgets", "outbox", "recall_decisions", "recall_feedback"}
        assert await in_tables(dsn, f"code of the lighthouse is {tenant.word}") == set()
        assert await in_tables(dsn, tenant.word) <= left
        assert await in_streams(bus, tenant.word) == set()
        assert in_files(data_dir, f"{tenant.word}seven", f"t-{tenant.word}", f"note {tenant.word}") == set()
        assert {name.partition("/")[0] for name in in_files(data_dir, acme)} == {"postgres"}
        assert stays.id in await found(client, "what is the alarm code?")
        assert other.id in await found(client, "what is the alarm code?", tenant="other")
        assert await in_tables(dsn, other.word) >= {"memories", "recall_decisions"}
        pool = await open_pool(dsn, name="test")
        rows = await pool.fetch("SELECT * FROM orion_recall.memory_forgets ORDER BY id")
        assert [(row["kind"], row["actor"], row["selector"]) for row in rows] == [
            ("user", None, None),
            ("session", "Bo", None),
            ("tenant", None, None),
        ]
        assert all(row["finished_at"] for row in rows)
        await pool.close()


async def test_a_person_goes_with_everything_that_names_them_also_by_other_names(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canary = Canary()
    name, nick = f"{canary.word.capitalize()} Lind", f"Nick{canary.word}"
    async with up(data_dir) as (settings, service, client):
        await stored(
            client,
            service,
            {"id": "spoke", "text": "I oiled the crane.", "speaker": name, "session_id": "s"},
            {"id": "named", "text": f"Bo met {name} in Voss.", "session_id": "s"},
            {"id": "nick", "text": "Somebody owns a red boat.", "entities": [nick]},
            {"id": "may", "text": f"{canary.word}s lind trees grow in Bergen."},
            {"id": "former", "text": f"It was {name} who called."},
        )
        await client.update([{"id": "former", "text": "It was somebody who called."}], timeout_s=30)
        assert await asyncio.to_thread(run, ["memory", "merge", "--into", name, nick]) == 0
        capsys.readouterr()
        await found(client, f"what did {name.lower()} say of the trees?")
        await all_persisted(service)
        dry = await forget(capsys, "--person", name, "--dry-run")
        assert dry["memories"] == 3
        assert await in_tables(settings.dsn or "", nick)
        assert (await forget(capsys, "--person", name, "--yes"))["memories"] == 3
        assert await in_tables(settings.dsn or "", nick) == set()
        assert await in_tables(settings.dsn or "", name) == set()
        assert in_files(data_dir, name, nick) == set()
        assert set(await found(client, "who called, and what grows in Bergen?")) == {"may", "former"}


async def test_a_dry_run_counts_and_changes_nothing_and_without_yes_nothing_is_done(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canary = Canary()
    async with up(data_dir) as (settings, service, client):
        await stored(client, service, canary.memory())
        question = f"what is the {canary.word} alarm code?"
        await asked_on_the_shared_stream(settings, question)
        await all_persisted(service)
        before = await rows_of(settings.dsn or "")
        report = await forget(capsys, "--id", canary.id, "--dry-run")
        counts = {place: one["gone"] for place, one in places(report).items()}
        assert (report["dry_run"], report["memories"], report["unfinished"]) == (True, 1, [])
        assert counts["Postgres: decisions"] == 1
        assert counts["bus: decision stream"] == 1
        assert counts["bus: replies"] == 1
        assert "error" in await forget(capsys, "--id", canary.id, code=2)
        for wrong in (["--user", ""], ["--tenant", " "], ["--user", "a", "--session", "b"], []):
            assert "error" in await forget(capsys, *wrong, "--yes", code=2), wrong
        assert await rows_of(settings.dsn or "") == before
        assert canary.id in await found(client, question)


async def rows_of(dsn: str) -> list[tuple[Any, ...]]:
    """All that a forgetting would change, or add to."""
    pool = await open_pool(dsn, name="test")
    try:
        found: list[tuple[Any, ...]] = []
        for table in ("memories", "memory_history", "outbox", "recall_decisions", "memory_forgets"):
            rows = await pool.fetch(f"SELECT t::text FROM {quote_identifier(table)} AS t ORDER BY 1")
            found.append((table, *(row["t"] for row in rows)))
        return found
    finally:
        await pool.close()


async def test_a_folder_without_a_worker_is_opened_and_its_open_decisions_are_kept_without_words(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canary, stays = Canary(), Canary()
    async with up(data_dir) as (settings, service, client):
        await stored(client, service, canary.memory(), stays.memory())
        assert canary.id in await found(client, f"what is the {canary.word} alarm code?")
        await all_persisted(service)
        name = settings.decision_stream
        async with connect(settings.bus_url or "") as redis:
            last = cast("Any", await redis.xrevrange(name, count=1))[0]
            envelope = json.loads(last[1][b"envelope"])
            envelope["payload"]["id"] = decision = str(uuid4())
    # One that no sink has read, as after a crash, and a message that nobody could read.
    async with EmbeddedEngines.start(data_dir) as engines, connect(engines.redis_url) as redis:
        await redis.xadd(name, {"envelope": json.dumps(envelope)})
        await redis.xadd(
            f"{settings.intake_streams['stores']}:dead",
            {"reason": "bad", "field:envelope": f'{{"x": "{canary.id}", "'},
        )
    report = await forget(capsys, "--id", canary.id, "--yes")
    assert report["unfinished"] == []
    assert places(report)["bus: dead letters"]["gone"] == 1
    assert in_files(data_dir, canary.word) == set()
    async with up(data_dir) as (settings, service, client):
        assert stays.id in await found(client, "what is the alarm code?")
        await all_persisted(service)
        pool = await open_pool(settings.dsn or "", name="test")
        row = await pool.fetchrow("SELECT * FROM orion_recall.recall_decisions WHERE id = $1::text::uuid", decision)
        await pool.close()
        assert row is not None
        assert (row["query"], row["outcome"], canary.id in row["selected_ids"]) == ("", "ok", True)
        assert row["latency_ms"] > 0


async def test_a_run_that_was_killed_is_finished_by_the_same_command(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = Canary()
    async with up(data_dir) as (settings, service, client):
        await stored(client, service, canary.memory())
        await found(client, f"what is the {canary.word} alarm code?", user=f"u-{canary.word}")
        await all_persisted(service)
        for place in ("clear_around", "blank_decisions"):
            with monkeypatch.context() as broken:
                broken.setattr(ForgetRecord, place, _killed)
                await forget(capsys, "--user", f"u-{canary.word}", "--yes", code=1)
        # By now nothing says whose the memory was, but which it was is kept until all is done.
        assert await in_tables(settings.dsn or "", f"u-{canary.word}") == {"recall_decisions"}
        report = await forget(capsys, "--user", "u-somebody", "--yes", code=1)
        assert "another one was stopped" in report["unfinished"][0]
        report = await forget(capsys, "--user", f"u-{canary.word}", "--yes")
        assert report["unfinished"] == []
        assert await in_tables(settings.dsn or "", canary.word) == set()
        assert await in_streams(settings.bus_url or "", canary.word) == set()
        assert in_files(data_dir, canary.word) == set()
        report = await forget(capsys, "--user", "u-somebody", "--yes")
        assert report["memories"] == 0


async def _killed(*_: object) -> None:
    raise RecordError("it ends here")
