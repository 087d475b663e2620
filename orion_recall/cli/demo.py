"""`orion-recall demo`: the whole path on embedded engines, from a file of memories to decisions in SQL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr
from rich.text import Text

from orion_recall.cli.ask.app import source_rows
from orion_recall.cli.output import JsonFlag, console, counted, notes, plain, print_json, table, visible
from orion_recall.client import RecallClient
from orion_recall.contracts import RecallReplyV1
from orion_recall.decisions.log import DecisionLog, SqlResult
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import OrionError
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.import_file import ImportSummary
from orion_recall.memory.transfer.importer import import_file, wait_for_copies
from orion_recall.postgres.address import DEFAULT_SCHEMA
from orion_recall.postgres.pool import migrate, open_pool
from orion_recall.sample.timed import sample_memories
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from orion_recall.tasks import cancel
from orion_recall.telemetry import log_to_stderr
from orion_recall.values import SOURCE_NAMES

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """One question under one profile, and its reply."""

    question: str
    profile: str
    reply: RecallReplyV1


@dataclass(slots=True, kw_only=True)
class Shown:
    """All output of the demo: counts, recalls, and decisions by SQL."""

    folder: Path
    summary: ImportSummary
    seconds: dict[str, float]
    recalls: list[Recall]
    sql: str
    decisions: SqlResult

    def as_json(self) -> dict[str, Any]:
        """As one JSON document."""
        names = ("read", "stored", "unchanged", "conflict", "rejected")
        return {
            "data_dir": str(self.folder),
            "imported": {name: getattr(self.summary, name) for name in names},
            "seconds": self.seconds,
            "recalls": [
                {"question": one.question, "profile": one.profile, **one.reply.model_dump(exclude_unset=True)}
                for one in self.recalls
            ],
            "sql": self.sql,
            "decisions": [dict(zip(self.decisions.columns, row, strict=True)) for row in self.decisions.rows],
        }


@app.command()
def demo(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder for the demo's data.")] = _FOLDER,
    as_json: JsonFlag = False,
) -> int:
    """See it work: sample memories, questions under three profiles, the decisions by SQL.

    Starts its own bus and Postgres in the folder (whatever the environment says), imports a small sample over
    the bus, asks as an executor would, and reads the decisions back. A second run finds it all there.

    Example: `orion-recall demo`, then `orion-recall up --data .orion/demo` to ask it yourself.
    """
    log_to_stderr("warning")
    shown = asyncio.run(_demo(data))
    if as_json:
        print_json(shown.as_json())
    else:
        _show(shown)
    return 1 if shown.summary.conflict or shown.summary.rejected else 0


async def _demo(folder: Path) -> Shown:
    steps = _Steps()
    now = datetime.now(UTC)
    session = f"demo-{now:%Y%m%dT%H%M%S}"
    async with EmbeddedEngines.start(folder) as engines:
        await migrate(engines.postgres_dsn)
        steps.done("engines", "bus and Postgres run")
        async with _serving(_settings(engines)):
            steps.done("worker", "model loaded, worker ready")
            async with RecallClient.connect(engines.redis_url, service="orion-recall-demo") as client:
                summary = await _import(client, engines, now)
                steps.done("import", f"{summary.describe()}; index and graph have it")
                recalls = [await _ask(client, text, name, session) for text in QUESTIONS for name in PROFILES]
                steps.done("recalls", f"{len(recalls)} questions answered over the bus")
            sql = _SQL.format(session=session)
            decisions = await _decisions(engines.postgres_dsn, sql, len(recalls))
            steps.done("decisions", f"{len(decisions.rows)} decisions are in Postgres")
    steps.done("stopped", "everything stopped")
    return Shown(
        folder=folder, summary=summary, seconds=steps.seconds, recalls=recalls, sql=sql, decisions=decisions
    )


def _settings(engines: EmbeddedEngines) -> Settings:
    """The demo's own: nothing of it goes to the engines, tenants or profiles that the environment names."""
    return Settings.read(
        redis_url=SecretStr(engines.redis_url),
        postgres_dsn=SecretStr(engines.postgres_dsn),
        postgres_schema=DEFAULT_SCHEMA,
        data_dir=engines.data_dir,
        prefix="",
        tenants=("default",),
        default_tenant="default",
        default_profile="reflect.v1",
        profiles_dir=None,
        timeline_table="collapse_mirror",
        timeline_columns={},
        timeline_tenant=None,
    )


@contextlib.asynccontextmanager
async def _serving(settings: Settings) -> AsyncGenerator[None]:
    """A worker beside the block."""
    async with Service.start(settings) as service:
        ready = asyncio.Event()
        serving = asyncio.create_task(service.serve(ready))
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
            yield
            service.stop()
            await serving
        finally:
            await cancel(serving, waiting)


async def _import(client: RecallClient, engines: EmbeddedEngines, now: datetime) -> ImportSummary:
    """The sample through the real import, and into index and graph."""
    file = engines.data_dir / "sample.jsonl"
    memories = sample_memories(now, _first_run(engines.data_dir, now))
    file.write_text("".join(f"{json.dumps(memory)}\n" for memory in memories), "utf-8")
    imported = await import_file(client, file, batch_size=20)
    pool = await open_pool(engines.postgres_dsn, name="demo", max_size=1)
    try:
        waited = await wait_for_copies(Record(pool), imported.position or 0)
    finally:
        await pool.close()
    if not waited.caught_up:
        what = " and ".join((*(one.kind for one in waited.lagging), *waited.missing))
        raise OrionError(f"the {what} of the sample does not catch up with position {imported.position}")
    return imported.summary


def _first_run(folder: Path, now: datetime) -> datetime:
    """When the demo first ran on the folder: the sample's older memories are counted from then."""
    note = folder / "first_run"
    try:
        return datetime.fromisoformat(note.read_text("ascii").strip())
    except FileNotFoundError:
        note.write_text(f"{now.isoformat()}\n", "ascii")
        return now


async def _ask(client: RecallClient, question: str, profile: str, session: str) -> Recall:
    reply = await client.recall(
        question, profile=profile, session_id=session, node_id="athena", verb="answer", options={}
    )
    return Recall(question=question, profile=profile, reply=reply)


async def _decisions(dsn: str, sql: str, expected: int) -> SqlResult:
    """The decision rows, once the sink has written them all."""
    pool = await open_pool(dsn, name="demo", max_size=1)
    try:
        log = DecisionLog(pool)
        end = time.monotonic() + _DECISIONS_WITHIN_S
        while len((found := await log.run_sql(sql)).rows) < expected:
            if time.monotonic() > end:
                raise OrionError(f"only {len(found.rows)} of {expected} decisions reached Postgres")
            await asyncio.sleep(0.05)
        return found
    finally:
        await pool.close()


class _Steps:
    """Says on standard error what is done and how long it took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._notes, self._last = notes(), time.monotonic()

    def done(self, name: str, what: str) -> None:
        now = time.monotonic()
        self.seconds[name] = round(now - self._last, 2)
        self._last = now
        self._notes.print(Text(f"{self.seconds[name]:6.2f} s  {what}"), soft_wrap=True)


def _show(shown: Shown) -> None:
    """One question in full, the others in two lines each, and the log of all of them."""
    out = console()
    first, *others = (one for one in shown.recalls if one.profile == _SHOWN)
    stats = first.reply.bundle.stats
    out.print(Text(first.question, style="bold"))
    out.print(Text(f"{_SHOWN}: {_found(first)}, {counted(stats.tokens or 0, 'token')}", style="cyan"))
    out.print(Text(visible(_answer(first))), soft_wrap=True)
    out.print()
    out.print(Text("The same question under three profiles: what each source found", style="bold"))
    out.print(_sources_table([one for one in shown.recalls if one.question == first.question]))
    out.print()
    out.print(Text("Further questions, each with the first of what was found", style="bold"))
    for one in others:
        line, *_ = _answer(one).splitlines()
        out.print(Text(f"{one.question}  {_found(one)}"), soft_wrap=True)
        out.print(Text(visible(line), style="dim"), soft_wrap=True)
    out.print()
    out.print(Text("The decisions, read back by SQL", style="bold"))
    out.print(Text(shown.sql, style="dim"), soft_wrap=True)
    out.print(table(shown.decisions.columns, shown.decisions.rows))
    out.print()
    folder = shlex.quote(str(shown.folder))
    for line in (
        f"Ask it yourself: orion-recall up --data {folder}, and from another terminal",
        f'  orion-recall ask "Where does Mira work?" --explain --data {folder}',
        f"  orion-recall decisions list --data {folder}",
        f"  orion-recall graph viz Ana Mira --out graph.html --data {folder}",
        "Everything above as JSON: orion-recall demo --json. All commands: orion-recall --help",
    ):
        out.print(Text(line), soft_wrap=True)


def _found(one: Recall) -> str:
    bundle = one.reply.bundle
    return f"{counted(len(bundle.items), 'memory')} in {bundle.stats.latency_ms:.0f} ms"


def _answer(one: Recall) -> str:
    return one.reply.bundle.rendered or (one.reply.error.message if one.reply.error else "nothing")


def _sources_table(recalls: Sequence[Recall]) -> Any:
    """What every source found, and in how many ms, under each profile."""
    cells = {
        (one.profile, name): status if status == "off" else f"{status}, {count} in {ms} ms"
        for one in recalls
        for name, status, count, ms, _ in source_rows(one.reply.bundle.stats)
    }
    rows = [(name, *(cells.get((one.profile, name), "-") for one in recalls)) for name in SOURCE_NAMES]
    rows.append(("whole recall", *(f"{one.reply.bundle.stats.latency_ms:.1f} ms" for one in recalls)))
    return table(("source", *(one.profile for one in recalls)), [[plain(cell) for cell in row] for row in rows])
