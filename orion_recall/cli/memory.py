"""`orion-recall memory`: the copies of the record, built anew."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict

import typer
from pydantic import SecretStr
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from orion_recall.cli.addresses import DataFolder, dsn_of, find, open_postgres
from orion_recall.cli.memory_merge import merge_names
from orion_recall.cli.output import JsonFlag, console, notes, print_json, visible
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.engines.postgres import PostgresServer
from orion_recall.memory.record import Record
from orion_recall.memory.reembed import Reembedded, reembed, reembed_on_server
from orion_recall.models.chosen import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.settings import Settings
from orion_recall.sources.qdrant import QdrantIndex
from orion_recall.stores import index_of

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Build copies of the record anew.

    Example: `ORION_EMBEDDER=transformers ORION_MODEL=BAAI/bge-m3 orion-recall memory reembed`
    """,
)


@app.callback()
def memory() -> None:
    """Keeps `reembed` a command of its own while it is the only one."""


app.command("merge")(merge_names)


@app.command("reembed")
def reembed_memories(data: DataFolder = None, as_json: JsonFlag = False) -> None:
    """Embed every memory by the configured model, into a second index beside the live one.

    A running worker goes on answering from the index it has. The new one takes its place when it is complete: at
    once when no worker runs on the data folder, else when the worker is started again with the new model's
    settings. With ORION_QDRANT_URL the second index is a collection: name a new one in ORION_QDRANT_COLLECTION, and
    start the workers with the same settings when it is complete. A run that was stopped goes on where it was.

    Example: `ORION_EMBEDDER=tei ORION_TEI_URL=http://127.0.0.1:8080 orion-recall memory reembed`
    """
    settings = find(data)
    done = asyncio.run(_reembed(settings))
    if as_json:
        print_json(asdict(done))
        return
    what = {
        "already": "the index is that model's already",
        "swapped": "it is the index, for every worker that starts from now on",
        "built": f"start the workers with these settings (ORION_QDRANT_COLLECTION={settings.qdrant_collection})",
        "waiting": "a worker has the folder: start it again with this model's settings, and it is the index",
    }[done.state]
    line = f"{done.model} ({done.dimension} floats), memories up to position {done.position}: {what}"
    console().print(Text(visible(line)), soft_wrap=True)


async def _reembed(settings: Settings) -> Reembedded:
    shown = notes()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    async with contextlib.AsyncExitStack() as stack:
        settings = await _with_record(settings, stack)
        bars = stack.enter_context(Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal))
        embedding = bars.add_task("embedding", total=None)

        def advanced(position: int, head: int) -> None:
            bars.update(embedding, completed=position, total=head)

        record = Record(await stack.enter_async_context(open_postgres(settings)))
        embedder, sparse = await stack.enter_async_context(open_embedder(settings)), SparseEncoder()
        if settings.qdrant_url is None:
            return await reembed(record, settings.data_dir / "index", embedder, sparse, advanced=advanced)
        index = index_of(settings, embedder, sparse)
        assert isinstance(index, QdrantIndex)
        stack.push_async_callback(index.close)
        return await reembed_on_server(record, index, dsn_of(settings), advanced=advanced)


async def _with_record(settings: Settings, stack: contextlib.AsyncExitStack) -> Settings:
    """The settings with a record: that of a folder which `up` has filled and left is started for the while."""
    if settings.dsn is not None or not (settings.data_dir / PostgresServer.name).is_dir():
        return settings
    engines = await stack.enter_async_context(EmbeddedEngines.start(settings.data_dir, valkey=False))
    return settings.changed(postgres_dsn=SecretStr(engines.postgres_dsn))
