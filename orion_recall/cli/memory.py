"""`orion-recall memory`: the copies of the record, built anew."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from orion_recall.cli.addresses import DataFolder, find, open_postgres
from orion_recall.cli.memory_extract import extract_memories, show_extracted
from orion_recall.cli.output import JsonFlag, console, notes, print_json, visible
from orion_recall.memory.record import Record
from orion_recall.memory.reembed import Reembedded, reembed
from orion_recall.models.chosen import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.settings import Settings

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


app.command("extract")(extract_memories)
app.command("extracted")(show_extracted)


@app.command("reembed")
def reembed_memories(data: DataFolder = None, as_json: JsonFlag = False) -> None:
    """Embed every memory by the configured model, into a second index beside the live one.

    A running worker goes on answering from the index it has. The new one takes its place when it is complete: at
    once when no worker runs on the data folder, else when the worker is started again with the new model's
    settings. A run that was stopped goes on where it was.

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
        "waiting": "a worker has the folder: start it again with this model's settings, and it is the index",
    }[done.state]
    line = f"{done.model} ({done.dimension} floats), memories up to position {done.position}: {what}"
    console().print(Text(visible(line)), soft_wrap=True)


async def _reembed(settings: Settings) -> Reembedded:
    shown = notes()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bars:
        embedding = bars.add_task("embedding", total=None)
        async with open_postgres(settings) as pool, open_embedder(settings) as embedder:
            return await reembed(
                Record(pool),
                settings.data_dir / "index",
                embedder,
                SparseEncoder(),
                advanced=lambda position, head: bars.update(embedding, completed=position, total=head),
            )
