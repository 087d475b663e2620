"""What workers say of their stores, and what `import` and `status` make of copies that do not move."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
from executor import until
from serving import started

from orion_recall.bus.connect import connect
from orion_recall.cli.main import run
from orion_recall.cli.memory import transfer as import_memories
from orion_recall.cli.serving.status import read_workers
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.transfer.importer import wait_for_copies
from orion_recall.postgres.pool import open_connection
from orion_recall.settings import Settings
from tests.stand_ins.oxigraph import Oxigraph
from tests.stand_ins.patient_profiles import patient_profiles

pytestmark = pytest.mark.slow

MAPPINGS = """
qdrant:
  - {name: notes, url: "http://127.0.0.1:9", collection: notes, tenant: acme, payload: {text: body}}
tables:
  - {name: tickets, table: orion_recall.memories, tenant: acme, columns: {id: id, ts: ts, text: text}}
  - {name: typo, table: public.ticketz, tenant: acme, columns: {id: id, ts: ts, text: text}}
"""


@pytest.fixture
def settings(
    service_engines: EmbeddedEngines, database: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Generator[Settings]:
    """Of a worker, and of the commands that this process runs; its data folder is its own."""
    data_dir = Path(tempfile.mkdtemp(prefix="orion-test-"))
    for name, value in {
        "REDIS_URL": service_engines.redis_url,
        "POSTGRES_DSN": database,
        "DATA_DIR": str(data_dir),
        "PREFIX": prefix,
        "LOOK_EVERY_S": "0.1",
        "INSTANCE": "looker",
        "REPLY_TTL_S": "60",
        "DEADLINE_MS": "20000",
        "PROFILES_DIR": str(patient_profiles(data_dir)),
    }.items():
        monkeypatch.setenv(f"ORION_{name}", value)
    monkeypatch.setenv("XDG_STATE_HOME", str(data_dir / "state"))
    yield Settings.read()
    shutil.rmtree(data_dir)


def break_index(settings: Settings) -> None:
    (settings.data_dir / "index").mkdir()
    (settings.data_dir / "index" / "index.json").write_text("no longer JSON")


async def program(*arguments: str) -> int:
    """A command of the program in this process: its exit code. What it prints is captured."""
    return await asyncio.to_thread(run, arguments)


async def execute(dsn: str, statement: str) -> None:
    connection = await open_connection(dsn, name="test", statement_timeout_ms=5000)
    await connection.execute(statement)
    await connection.close()


async def test_a_worker_says_of_every_store_whether_it_can_use_it(
    settings: Settings, sparql_server: Oxigraph, capsys: pytest.CaptureFixture[str]
) -> None:
    break_index(settings)
    file = settings.data_dir / "mappings.yaml"
    file.write_text(MAPPINGS, "utf-8")
    settings = settings.changed(mappings=file, sparql_url=sparql_server.url)
    async with started(settings), connect(settings.bus_url or "") as redis:

        async def states() -> dict[tuple[str, str], tuple[str, str | None]]:
            (worker,) = await read_workers(redis, settings, [settings.instance]) or [{}]
            return {(one["arm"], one["store"]): (one["health"], one["why"]) for one in worker.get("stores") or ()}

        async def graph_is(health: str) -> bool:
            return (await states()).get(("rdf", ""), ("",))[0] == health

        seen: dict[tuple[str, str], tuple[str, str | None]] = {}

        async def all_as_they_are() -> bool:  # a slow machine may take a store for a failing one, for one look
            seen.update(await states())
            return {place: health for place, (health, _) in seen.items()} == {
                ("vector", ""): "broken",
                ("vector", "notes"): "failing",
                ("lexical", ""): "broken",
                ("rdf", ""): "ok",
                ("sql_timeline", ""): "ok",
                ("sql_timeline", "tickets"): "ok",
                ("sql_timeline", "typo"): "failing",
            }

        await until(all_as_they_are, "a look at everything")
        assert "delete" in (seen["vector", ""][1] or "")
        assert "'notes'" in (seen["vector", "notes"][1] or "")
        assert "ticketz" in (seen["sql_timeline", "typo"][1] or "")

        assert await program("status", "--json") == 1
        found = json.loads(capsys.readouterr().out)
        assert {one["what"] for one in found["problems"]} == {
            "looker cannot use vector",
            "looker cannot use vector of notes",
            "looker cannot use lexical",
            "looker cannot use sql_timeline of typo",
        }
        assert await program("status") == 1
        shown = capsys.readouterr().out
        for words in ("vector of notes", "failing", "broken", "index.json", "tickets", "index"):
            assert words in shown

        await sparql_server.stop()
        await until(lambda: graph_is("failing"), "the graph's server is missed")
        await sparql_server.start()
        await until(lambda: graph_is("ok"), "the graph's server is back")


async def test_an_import_says_which_copy_is_behind_and_passes_over_one_that_is_gone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = settings.data_dir / "memories.jsonl"
    file.write_text(json.dumps({"id": "m1", "text": "The gulls are fed."}), "utf-8")
    copies = "INSERT INTO projections (copy, kind, position, updated_at) VALUES "
    async with started(settings):
        assert await program("import", str(file)) == 0
        assert capsys.readouterr().err == ""

        await execute(settings.dsn or "", f"{copies} ('gone:/data', 'index', 0, now() - interval '3 days')")
        file.write_text(json.dumps({"id": "m2", "text": "The gulls are fed again."}), "utf-8")
        assert await program("import", str(file), "--json") == 0
        said = capsys.readouterr()
        imported = json.loads(said.out)
        assert (imported["copies"], imported["behind"]) == ("caught_up", [])
        assert [(one["copy"], one["kind"], one["behind"]) for one in imported["gone"]] == [
            ("gone:/data", "index", 2)
        ]
        assert "status --forget gone:/data" in said.err

        assert await program("status", "--json") == 0
        listed = {one["copy"]: one for one in json.loads(capsys.readouterr().out)["postgres"]["copies"]}
        assert (listed["gone:/data"]["gone"], listed["gone:/data"]["silent_s"] > 250_000) == (True, True)
        (own,) = set(listed) - {"gone:/data"}
        assert listed[own]["gone"] is False
        assert await program("status", "--forget", own) == 1
        assert "would be back at once" in capsys.readouterr().err
        assert await program("status", "--forget", "nobody") == 1
        assert "there is no copy 'nobody'" in capsys.readouterr().err
        assert await program("status", "--forget", "gone:/data") == 0
        assert "gone:/data" not in capsys.readouterr().out

        monkeypatch.setattr(import_memories, "wait_for_copies", partial(wait_for_copies, stalled_s=2.0))
        await execute(settings.dsn or "", f"{copies} ('stuck:/data', 'graph', 1, now())")
        file.write_text(json.dumps({"id": "m3", "text": "The gulls are full."}), "utf-8")
        assert await program("import", str(file), "--json") == 3
        said = capsys.readouterr()
        imported = json.loads(said.out)
        assert (imported["copies"], imported["stored"]) == ("behind", 1)
        assert [(one["copy"], one["kind"], one["behind"]) for one in imported["behind"]] == [
            ("stuck:/data", "graph", 2)
        ]
        assert "the graph of stuck:/data is 2 behind and does not move" in said.err
        assert "nothing is lost" in said.err
        assert imported["advice"] == said.err.splitlines()


async def test_a_broken_copy_of_a_worker_that_runs_is_not_taken_for_one_that_is_gone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.memory.replicas.projector._HEARTBEAT_EVERY_S", 0.05)
    break_index(settings)
    copy = f"{settings.node}:{settings.data_dir.resolve()}"
    await execute(
        settings.dsn or "",
        "INSERT INTO projections (copy, kind, position, updated_at) "
        f"VALUES ('{copy}', 'index', 7, now() - interval '1 day')",
    )
    async with started(settings) as service:
        connection = await open_connection(settings.dsn or "", name="test", statement_timeout_ms=5000)

        async def signs() -> bool:
            rows = await connection.fetch("SELECT kind, position, now() - updated_at AS silent FROM projections")
            found = {row["kind"]: (row["position"], row["silent"].total_seconds() < 60) for row in rows}
            return found == {"index": (7, True), "graph": (0, True)}

        await until(signs, "signs of life of both")
        assert list(service.opened.broken) == ["index"]
        await connection.close()
