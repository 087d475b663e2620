"""`orion-recall demo`: the whole path on embedded engines, from a file of memories to decisions in SQL."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr
from rich.text import Text

from orion_recall.atomic_file import whole_text
from orion_recall.cli.addresses import open_postgres
from orion_recall.cli.output import Shown, Table, counted, heading, note, show
from orion_recall.client import RecallClient
from orion_recall.decisions.log import DecisionLog
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import OrionError
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.importer import ImportSummary, import_file, wait_for_copies
from orion_recall.postgres.address import DEFAULT_SCHEMA
from orion_recall.postgres.pool import Pool
from orion_recall.postgres.schema import migrate
from orion_recall.sample.timed import sample_memories
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from orion_recall.source_specs import source_names
from orion_recall.telemetry import log_to_stderr

PROFILES = ("assist.light.v1", "reflect.v1", "deep.graph.v1")
_SHOWN = "reflect.v1"
QUESTIONS = (
    "Where does Ana's sister live, and what may she not eat?",
    "What is wrong with the harbour crane, and who is mending it?",
    "How do I reset a Tidewatch buoy that has stopped reporting?",
    "What did we hear from the county about Tidewatch?",
)
_FOLDER = Path(".orion/demo")
_DECISIONS_WITHIN_S = 20.0
_SQL = """\
SELECT to_char(created_at, 'HH24:MI:SS') AS at, profile, outcome, round(latency_ms) AS ms,
       (SELECT sum(value::int) FROM jsonb_each_text(backend_counts)) AS found,
       jsonb_array_length(selected_ids) AS kept, left(query, 36) AS query
FROM recall_decisions
WHERE session_id = '{session}'
ORDER BY created_at"""


def demo(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder for the demo's data.")] = _FOLDER,
) -> int:
    """See it work: sample memories, questions under three profiles, the decisions by SQL.

    Starts its own bus and Postgres in the folder (whatever the environment says), imports a small sample over
    the bus, asks as an executor would, and reads the decisions back. A second run finds it all there.

    Example: `orion-recall demo`, then `orion-recall up --data .orion/demo` to ask it yourself.
    """
    log_to_stderr("warning")
    told = asyncio.run(_demo(data))
    show(told, *_shown(told))
    return 1 if told["imported"]["conflict"] or told["imported"]["rejected"] else 0


async def _demo(folder: Path) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    last = time.monotonic()

    def done(name: str, what: str) -> None:
        nonlocal last
        seconds[name], last = round(time.monotonic() - last, 2), time.monotonic()
        note(f"{seconds[name]:6.2f} s  {what}")

    now = datetime.now(UTC)
    session = f"demo-{now:%Y%m%dT%H%M%S}"
    async with EmbeddedEngines.start(folder) as engines:
        await migrate(engines.postgres_dsn)
        done("engines", "bus and Postgres run")
        settings = _settings(engines)
        async with Service.start(settings) as service, service.serving() as serving:
            done("worker", "model loaded, worker ready")
            async with (
                open_postgres(settings, name="demo") as pool,
                RecallClient.connect(engines.redis_url, service="orion-recall-demo") as client,
            ):
                summary = await _import(client, pool, engines.data_dir, now)
                done("import", f"{summary.describe()}; index and graph have it")
                recalls = [await _ask(client, text, name, session) for text in QUESTIONS for name in PROFILES]
                done("recalls", f"{len(recalls)} questions answered over the bus")
                sql = _SQL.format(session=session)
                decisions = await _decisions(pool, sql, len(recalls))
                done("decisions", f"{len(decisions)} decisions are in Postgres")
            service.stop()
            await serving
    done("stopped", "everything stopped")
    imported = {name: getattr(summary, name) for name in ("read", "stored", "unchanged", "conflict", "rejected")}
    return {
        "data_dir": str(folder), "imported": imported, "seconds": seconds, "recalls": recalls, "sql": sql,
        "decisions": decisions,
    }  # fmt: skip


def _settings(engines: EmbeddedEngines) -> Settings:
    return Settings.read(
        redis_url=SecretStr(engines.redis_url), postgres_dsn=SecretStr(engines.postgres_dsn),
        postgres_schema=DEFAULT_SCHEMA, data_dir=engines.data_dir, prefix="",
        tenants=("default",), default_tenant="default", default_profile="reflect.v1", profiles_dir=None,
        timeline_table="collapse_mirror", timeline_columns={}, timeline_tenant=None,
    )  # fmt: skip


async def _import(client: RecallClient, pool: Pool, folder: Path, now: datetime) -> ImportSummary:
    file = folder / "sample.jsonl"
    memories = sample_memories(now, _first_run(folder, now))
    with whole_text(file) as lines:
        lines.writelines(f"{json.dumps(memory)}\n" for memory in memories)
    summary = await import_file(partial(client.store, wait_s=0), file, batch_size=20)
    waited = await wait_for_copies(Record(pool).copies, summary.position or 0)
    if not waited.caught_up:
        what = " and ".join((*(one.kind for one in waited.lagging), *waited.missing))
        raise OrionError(f"the {what} of the sample does not catch up with position {summary.position}")
    return summary


def _first_run(folder: Path, now: datetime) -> datetime:
    note_of_it = folder / "first_run"
    try:
        return datetime.fromisoformat(note_of_it.read_text("ascii").strip())
    except FileNotFoundError:
        note_of_it.write_text(f"{now.isoformat()}\n", "ascii")
        return now


async def _ask(client: RecallClient, question: str, profile: str, session: str) -> dict[str, Any]:
    as_executor: dict[str, Any] = {"session_id": session, "node_id": "athena", "verb": "answer", "options": {}}
    reply = await client.recall(question, profile=profile, **as_executor)
    return {"question": question, "profile": profile, **reply.model_dump(exclude_unset=True)}


async def _decisions(pool: Pool, sql: str, expected: int) -> list[dict[str, Any]]:
    log, end = DecisionLog(pool), time.monotonic() + _DECISIONS_WITHIN_S
    while len((found := await log.run_sql(sql)).rows) < expected:
        if time.monotonic() > end:
            raise OrionError(f"only {len(found.rows)} of {expected} decisions reached Postgres")
        await asyncio.sleep(0.05)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def _shown(told: dict[str, Any]) -> Iterator[Shown]:
    """One question in full, the others in two lines each, and the log of all of them."""
    first, *others = (one for one in told["recalls"] if one["profile"] == _SHOWN)
    yield Text(first["question"], style="bold")
    count, ms = len(first["bundle"]["items"]), first["bundle"]["stats"]["latency_ms"]
    yield Text(f"{_SHOWN}: {counted(count, 'memory')} in {ms:.0f} ms", style="cyan")
    yield _answer(first)
    yield heading("The same question under three profiles: what each source found")
    yield _sources_table([one for one in told["recalls"] if one["question"] == first["question"]])
    yield heading("Further questions, each with the first of what was found")
    for one in others:
        yield f"{one['question']}\n{_answer(one).partition(chr(10))[0]}"
    yield heading("The decisions, read back by SQL")
    yield Text(told["sql"], style="dim")
    yield Table(told["decisions"][0], [list(row.values()) for row in told["decisions"]])
    folder = shlex.quote(told["data_dir"])
    yield (
        f"\nAsk it yourself: orion-recall up --data {folder}, and from another terminal\n"
        f'  orion-recall ask "Where does Mira work?" --explain --data {folder}\n'
        f"  orion-recall decisions list --data {folder}\n"
        f"  orion-recall graph viz Ana Mira --out graph.html --data {folder}\n"
        "Everything above as JSON: orion-recall demo --json. All commands: orion-recall --help"
    )


def _answer(one: dict[str, Any]) -> str:
    error: dict[str, Any] = one.get("error") or {}
    return one["bundle"]["rendered"] or error.get("message") or "nothing"


def _sources_table(recalls: Sequence[dict[str, Any]]) -> Table:

    def cell(one: dict[str, Any], name: str) -> str:
        sources: dict[str, Any] = one["bundle"]["stats"].get("sources") or {}
        source: dict[str, Any] = sources.get(name) or {"status": "off"}
        found = "" if source["status"] == "off" else f", {source['count']} in {source['ms']:.1f} ms"
        return f"{source['status']}{found}"

    rows = [(name, *(cell(one, name) for one in recalls)) for name in source_names()]
    return Table(("source", *(one["profile"] for one in recalls)), rows)
