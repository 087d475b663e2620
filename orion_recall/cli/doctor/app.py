"""`orion-recall doctor`: checks of the installation, of every server, and of external stores with a sample item.

It also counts the listeners on the channels where executors publish their queries.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_bus
from orion_recall.cli.doctor.installation import check_installation
from orion_recall.cli.doctor.servers import check_servers
from orion_recall.cli.output import JsonFlag, print_json, say, visible
from orion_recall.errors import BusUnavailable, ModelError, SettingsError, SourceError
from orion_recall.external.mappings import Mappings, QdrantMapping, SparqlMapping, load_mappings
from orion_recall.external.opening import collection_of, graph_client, timeline_of
from orion_recall.external.qdrant import is_in_milliseconds, text_of, value_at
from orion_recall.external.sparql import MappedGraphSource
from orion_recall.interfaces import IdentifiedCopy, MemoryGraph, MemoryIndex, TokenIndex
from orion_recall.models.embedder import Embedder
from orion_recall.models.opening import open_embedder
from orion_recall.serving.backends import graph_of, identity_of, index_of, sparse_encoder_of, timeline_table
from orion_recall.settings import Settings
from orion_recall.sources.timeline import TimelineSource, unreadable_rows
from orion_recall.sources.timeline_table import OWN_VIEW

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of the check of one store. It is `ok` without problems; remarks are no problems."""

    store: str
    kind: str
    arms: Sequence[str] = ()
    problems: Sequence[str] = ()
    remarks: Sequence[str] = ()
    count: int | None = None
    sample: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def ok(self) -> bool:
        return not self.problems


@app.command()
def doctor(data: DataFolder = None, as_json: JsonFlag = False) -> int:
    """Check the installation, the servers, external stores with a sample item, and the query channels.

    Packages, engines, model, profiles, settings and data folder; of bus and Postgres version, schema, copies,
    clocks and limits; whether servers of index and graph are of this record, whether every mapping of
    ORION_MAPPINGS and ORION_TIMELINE_TABLE fits, and how many listen on each of ORION_QUERY_CHANNELS. It starts
    and writes nothing. Exit code 1 when something cannot be used.

    Example: `orion-recall doctor`, or with stores of your own `ORION_MAPPINGS=mappings.yaml orion-recall doctor`
    """
    settings = find(data)
    installation = check_installation(settings)
    findings = asyncio.run(_look(load_mappings(settings.mappings), settings))
    servers = asyncio.run(check_servers(settings))
    channels = asyncio.run(_channels(settings))
    checks = [*installation, *servers]
    healthy = all(check.problem is None for check in checks) and all(finding.ok for finding in findings)
    ok = healthy and channels["error"] is None
    if as_json:
        stores = [{**asdict(finding), "ok": finding.ok} for finding in findings]
        told = {"installation": installation, "servers": servers}
        print_json({"ok": ok, **told, "stores": stores, "channels": channels})
    else:
        for check in checks:
            say(check.name, check.found, check.problem)
        for finding in findings:
            _show(finding)
        if not findings:
            say("servers", "none: no server or external store is configured, all is embedded")
        _show_channels(channels)
    return 0 if ok else 1


async def _look(mappings: Mappings, settings: Settings) -> list[Finding]:
    async with contextlib.AsyncExitStack() as stack:
        embeds = bool(mappings.qdrant) or settings.qdrant_url is not None
        embedder = await stack.enter_async_context(open_embedder(settings)) if embeds else None
        looks: list[tuple[str, str, Awaitable[Finding]]] = [
            *((one.name, "qdrant", _qdrant(one, embedder)) for one in mappings.qdrant),
            *((one.name, "sparql", _sparql(one)) for one in mappings.sparql),
            *((one.name, "table", _timeline(one.name, timeline_of(one, settings))) for one in mappings.tables),
        ]
        if settings.timeline_table != OWN_VIEW:
            looks.insert(0, ("its own timeline", "table", _own_timeline(settings)))
        if settings.sparql_url:
            looks.insert(0, ("its own graph", "sparql", _own(graph_of(settings), settings, "sparql", ["rdf"])))
        if settings.qdrant_url and embedder is not None:
            index = index_of(settings, embedder, await sparse_encoder_of(settings))
            looks.insert(0, ("its own index", "qdrant", _own(index, settings, "qdrant", ["vector", "lexical"])))
        return list(await asyncio.gather(*(_in_time(name, kind, look) for name, kind, look in looks)))


async def _in_time(name: str, kind: str, look: Awaitable[Finding]) -> Finding:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await look
    except (SourceError, SettingsError, ModelError) as error:
        return Finding(store=name, kind=kind, problems=[str(error)])
    except TimeoutError:
        return Finding(store=name, kind=kind, problems=[f"no answer within {_TIMEOUT_S:.0f} s"])


async def _own(part: MemoryIndex | MemoryGraph, settings: Settings, kind: str, sources: Sequence[str]) -> Finding:
    """SourceError when it is another record's, or nobody can tell."""
    without: str | None = None
    try:
        mark = await identity_of(settings)
        if isinstance(part, IdentifiedCopy):
            if mark is not None:
                part.expect(mark)
            await part.open()
            await part.check()
        else:
            await part.open()
        if isinstance(part, TokenIndex):
            without = await part.without_tokens()
    finally:
        await part.close()
    whose = "of the record" if settings.dsn is not None else "whose it is was not asked, without Postgres"
    remarks = [f"at position {part.position}, {whose}"]
    if without is not None:
        remarks.append(f"no late interaction (ranking.late): {without}")
    return Finding(store=f"its own {part.kind}", kind=kind, arms=sources, remarks=remarks)


async def _qdrant(mapping: QdrantMapping, embedder: Embedder | None) -> Finding:
    assert embedder is not None
    collection = collection_of(mapping)
    try:
        dense, sparse = await collection.vectors()
        count, payload = await collection.sample()
    finally:
        await collection.close()
    problems: list[str] = []
    remarks: list[str] = []
    if mapping.vector not in dense:
        known = ", ".join(repr(name) for name in dense) or "none"
        problems.append(f"there is no dense vector {mapping.vector!r}; there is {known}: set `vector`")
    else:
        size, distance = dense[mapping.vector]
        if size != embedder.dimension:
            problems.append(
                f"vectors of {size} floats; {embedder.name} makes {embedder.dimension}: another model's"
            )
        if distance != "Cosine":
            remarks.append(f"the distance is {distance}: scores are no cosines, and are fused as they are")
    if mapping.sparse is None:
        remarks.append("no sparse vector is mapped: the lexical source does not search it")
    elif mapping.sparse not in sparse:
        known = ", ".join(repr(name) for name in sparse) or "none"
        problems.append(
            f"there is no sparse vector {mapping.sparse!r}; there is {known}: set `sparse`, or leave it out"
        )
    roles = {role: key for role, key in mapping.payload.model_dump(exclude={"time_format"}).items() if key}
    shown = {role: value_at(payload or {}, key) for role, key in roles.items()}
    if payload is None:
        remarks.append("the collection is empty")
    elif text_of(payload, mapping.payload.text) is None:
        problems.append(f"the sample has no text under {mapping.payload.text!r}; it has {', '.join(payload)}")
    else:
        missing = [f"{role} ({key})" for role, key in roles.items() if shown[role] is None]
        remarks.extend([f"the sample has no {', '.join(missing)}"] if missing else [])
        if mapping.payload.time_format == "epoch" and is_in_milliseconds(shown.get("time")):
            problems.append("the sample's time is in milliseconds: set `time_format: epoch_ms`")
    sources = ["vector", *(["lexical"] if mapping.sparse else [])]
    return Finding(
        store=mapping.name,
        kind="qdrant",
        arms=sources,
        problems=problems,
        remarks=remarks,
        count=count,
        sample=shown,
    )


async def _sparql(mapping: SparqlMapping) -> Finding:
    client = graph_client(mapping)
    try:
        sample = await MappedGraphSource(client, mapping).sample()
    finally:
        await client.close()
    problems = (
        [] if sample else [f"nothing has both {mapping.label} and {mapping.text}: check graph, label and text"]
    )
    return Finding(store=mapping.name, kind="sparql", arms=["rdf"], problems=problems, sample=dict(sample or {}))


async def _own_timeline(settings: Settings) -> Finding:
    if settings.dsn is None:
        raise SettingsError("ORION_TIMELINE_TABLE is in the service's own Postgres: set ORION_POSTGRES_DSN")
    return await _timeline(settings.timeline_table, TimelineSource(settings.dsn, timeline_table(settings)))


async def _timeline(store: str, timeline: TimelineSource) -> Finding:
    try:
        sample = await timeline.sample()
        total, lacking = await timeline.lacking()
        nobodys = (await timeline.shape()).without_tenant
    finally:
        await timeline.close()
    problems = [nobodys] if nobodys else []
    remarks: list[str] = []
    if not total:
        remarks.append("the table is empty")
    elif lacking:
        (problems if total in lacking.values() else remarks).append(unreadable_rows(total, lacking))
    return Finding(
        store=store, kind="table", arms=["sql_timeline"], problems=problems, remarks=remarks, sample=sample
    )


async def _channels(settings: Settings) -> dict[str, Any]:
    """The number of listeners on each query channel; none where no bus is known."""
    names = settings.published_on["queries"]
    found: dict[str, Any] = {"listeners": {}, "error": None}
    if settings.redis_url is None or not names:
        return found
    try:
        async with open_bus(settings) as redis:
            counted: Any = await redis.pubsub_numsub(*names)  # pyright: ignore[reportUnknownMemberType]
    except BusUnavailable as error:
        return found | {"error": str(error)}
    return found | {"listeners": {name.decode(): count for name, count in counted}}


def _show_channels(channels: Mapping[str, Any]) -> None:
    if channels["error"] is not None:
        say("channels", "cannot be looked at", channels["error"])
    nobody = "nobody listens: what is published here now is lost. Start a worker with it in ORION_QUERY_CHANNELS"
    for name, count in channels["listeners"].items():
        say("channel", f"{name}  {f'{count} listening' if count else nobody}")


def _show(finding: Finding) -> None:
    count = f", {finding.count:,} points" if finding.count is not None else ""
    what = f"{finding.kind}: {', '.join(finding.arms)}{count}" if finding.arms else finding.kind
    say(finding.store, f"ok  {what}" if finding.ok else what, None if finding.ok else "cannot be used")
    for problem in finding.problems:
        say("  problem", "", problem)
    for remark in finding.remarks:
        say("  remark", remark)
    for role, value in finding.sample.items():
        if value is not None:
            say(f"  {role}", visible(value)[:200])
