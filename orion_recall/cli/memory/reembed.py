"""`orion-recall memory reembed`: the index by another model, or with the vectors of tokens that it lacks."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict

from rich.text import Text

from orion_recall.cli.connect.addresses import DataFolder, dsn_of, find, open_postgres
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.output import JsonFlag, console, print_json, visible
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.reembed import Reembedded, reembed, reembed_on_server
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.serving.backends import index_of
from orion_recall.settings import Settings


def reembed_memories(data: DataFolder = None, as_json: JsonFlag = False) -> None:
    """Embed every memory by the configured model, into a second index beside the live one.

    Needed after a change of the model, and for an index made without the vectors of tokens that ORION_TOKEN_VECTORS
    wants, or with those it does not want.

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
        "already": "the index is that model's already, with the vectors of tokens that it is to have",
        "swapped": "it is the index, for every worker that starts from now on",
        "built": f"start the workers with these settings (ORION_QDRANT_COLLECTION={settings.qdrant_collection})",
        "waiting": "a worker has the folder: start it again with this model's settings, and it is the index",
    }[done.state]
    line = f"{done.model} ({done.dimension} floats), memories up to position {done.position}: {what}"
    console().print(Text(visible(line)), soft_wrap=True)


async def _reembed(settings: Settings) -> Reembedded:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        advanced = stack.enter_context(progress("embedding"))
        record = Record(await stack.enter_async_context(open_postgres(settings)))
        embedder, sparse = await stack.enter_async_context(open_embedder(settings)), SparseEncoder()
        if settings.qdrant_url is None:
            return await reembed(record, settings.data_dir / "index", embedder, sparse, advanced=advanced)
        index = index_of(settings, embedder, sparse)
        assert isinstance(index, QdrantIndex)
        stack.push_async_callback(index.close)
        return await reembed_on_server(record, index, dsn_of(settings), advanced=advanced)
