"""`orion-recall doctor`: every store on a server, looked at as it is now; of those of others one sample item."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import typer
from rich.text import Text

from orion_recall.cli.addresses import DataFolder, find
from orion_recall.cli.output import JsonFlag, console, print_json, visible
from orion_recall.errors import ModelError, SettingsError, SourceError
from orion_recall.mapped_stores import collection_of, graph_client, timeline_of
from orion_recall.mappings import Mappings, QdrantMapping, SparqlMapping, TableMapping, load_mappings
from orion_recall.models.chosen import open_embedder
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.settings import Settings
from orion_recall.sources.mapped_qdrant import is_in_milliseconds, text_of, value_at
from orion_recall.sources.mapped_sparql import MappedGraphSource
from orion_recall.sources.source import MarkedCopy, MemoryGraph, MemoryIndex, TokenIndex
from orion_recall.stores import graph_of, index_of, mark_of

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a look at one store found. It is `ok` without problems; remarks are no problems."""

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
    """Check the servers of index and graph, and the stores of others, with a sample item of these.

    Of ORION_QDRANT_URL and ORION_SPARQL_URL it says whether what they hold is of this record; of the file that
    ORION_MAPPINGS names, whether every mapping fits. Exit code 1 when one cannot be used.

    Example: `ORION_MAPPINGS=mappings.yaml orion-recall doctor`
    """
    settings = find(data)
    if settings.mappings is None and settings.qdrant_url is None and settings.sparql_url is None:
        raise SettingsError(
            "ORION_MAPPINGS, ORION_QDRANT_URL and ORION_SPARQL_URL are not set: there are no servers to look at"
        )
    findings = asyncio.run(_look(load_mappings(settings.mappings), settings))
    ok = all(finding.ok for finding in findings)
    if as_json:
        print_json({"ok": ok, "stores": [{**asdict(finding), "ok": finding.ok} for finding in findings]})
    else:
        for finding in findings:
            _show(finding)
    return 0 if ok else 1


async def _look(mappings: Mappings, settings: Settings) -> list[Finding]:
    async with contextlib.AsyncExitStack() as stack:
        embeds = bool(mappings.qdrant) or settings.qdrant_url is not None
        embedder = await stack.enter_async_context(open_embedder(settings)) if embeds else None
        looks: list[tuple[str, str, Awaitable[Finding]]] = [
            *([("its own index", "qdrant", _own_index(settings, embedder))] if settings.qdrant_url else []),
            *([("its own graph", "sparql", _own_graph(settings))] if settings.sparql_url else []),
            *((one.name, "qdrant", _qdrant(one, embedder)) for one in mappings.qdrant),
            *((one.name, "sparql", _sparql(one)) for one in mappings.sparql),
            *((one.name, "table", _table(one, settings)) for one in mappings.tables),
        ]
        return list(await asyncio.gather(*(_in_time(name, kind, look) for name, kind, look in looks)))


async def _in_time(name: str, kind: str, look: Awaitable[Finding]) -> Finding:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await look
    except (SourceError, SettingsError, ModelError) as error:
        return Finding(store=name, kind=kind, problems=[str(error)])
    except TimeoutError:
        return Finding(store=name, kind=kind, problems=[f"no answer within {_TIMEOUT_S:.0f} s"])


async def _own_index(settings: Settings, embedder: Embedder | None) -> Finding:
    assert embedder is not None
    return await _own(index_of(settings, embedder, SparseEncoder()), settings, "qdrant", ["vector", "lexical"])


async def _own_graph(settings: Settings) -> Finding:
    return await _own(graph_of(settings), settings, "sparql", ["rdf"])


async def _own(part: MemoryIndex | MemoryGraph, settings: Settings, kind: str, arms: Sequence[str]) -> Finding:
    """SourceError when it is another record's, or nobody can tell."""
    without: str | None = None
    try:
        mark = await mark_of(settings)
        if isinstance(part, MarkedCopy):
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
    return Finding(store=f"its own {part.kind}", kind=kind, arms=arms, remarks=remarks)


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
        remarks.append("no sparse vector is mapped: it has no part in the lexical arm")
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
    arms = ["vector", *(["lexical"] if mapping.sparse else [])]
    return Finding(
        store=mapping.name, kind="qdrant", arms=arms, problems=problems, remarks=remarks, count=count, sample=shown
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


async def _table(mapping: TableMapping, settings: Settings) -> Finding:
    timeline = timeline_of(mapping, settings)
    try:
        row, roles = await timeline.sample()
    finally:
        await timeline.close()
    shown = {role: row[role] for role in roles} if row is not None else {}
    problems = [
        f"the newest row has no {role}" for role in ("id", "ts", "text") if row is not None and row[role] is None
    ]
    remarks = [] if row is not None else ["the table is empty"]
    return Finding(
        store=mapping.name, kind="table", arms=["sql_timeline"], problems=problems, remarks=remarks, sample=shown
    )


def _show(finding: Finding) -> None:
    count = f", {finding.count:,} points" if finding.count is not None else ""
    head = Text(f"{finding.store}  ", style="bold")
    head.append("ok" if finding.ok else "cannot be used", style="green" if finding.ok else "red")
    head.append(
        f"  {finding.kind}: {', '.join(finding.arms)}{count}" if finding.arms else f"  {finding.kind}", "dim"
    )
    console().print(head, soft_wrap=True)
    for problem in finding.problems:
        console().print(Text(f"  problem  {visible(problem)}", style="red"), soft_wrap=True)
    for remark in finding.remarks:
        console().print(Text(f"  remark   {visible(remark)}"), soft_wrap=True)
    for role, value in finding.sample.items():
        if value is not None:
            console().print(Text(f"  {role:8} {visible(value)[:200]}"), soft_wrap=True)
