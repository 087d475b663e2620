"""`orion-recall memory reembed`: embeds the index again, with another model or with token vectors."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict

from orion_recall.cli.connect.addresses import DataFolder, dsn_of, find, open_postgres
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.output import JsonFlag, print_json, prose, visible
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.memory.record.keyword_lengths import measure_lengths
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.reembed import Reembedded, reembed, reembed_on_server
from orion_recall.models.opening import open_embedder
from orion_recall.serving.backends import index_of, sparse_encoder_of
from orion_recall.settings import Settings


def reembed_memories(data: DataFolder = None, as_json: JsonFlag = False) -> None:
    """Embed every memory with the configured model, into a second index next to the live one.

    Needed when the model has changed, also from fp32 to int8 (ORION_EMBEDDING_PRECISION=int8), and when
    ORION_TOKEN_VECTORS was switched on or off.

    A running worker goes on answering from its index. The new one is swapped in when it is complete: at once if no
    worker runs on the data folder, else when the worker is started again with the new model's settings. With
    ORION_QDRANT_URL the second index is a collection: name a new one in ORION_QDRANT_COLLECTION, and start the
    workers with the same settings when it is complete. A run that was stopped goes on where it was.

    Example: `ORION_EMBEDDER=tei ORION_TEI_URL=http://127.0.0.1:8080 orion-recall memory reembed`
    """
    settings = find(data)
    done = asyncio.run(_reembed(settings))
    if as_json:
        print_json(asdict(done))
        return
    what = {
        "already": "the index is this model's already, with the token vectors that the settings ask for",
        "swapped": "swapped in for every worker that starts from now on",
        "built": f"start the workers with these settings (ORION_QDRANT_COLLECTION={settings.qdrant_collection})",
        "waiting": "a worker holds the folder: start it again with this model's settings, and it is swapped in",
    }[done.state]
    line = f"{done.model} ({done.dimension} floats), memories up to position {done.position}: {what}"
    prose(visible(line))


async def _reembed(settings: Settings) -> Reembedded:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        advanced = stack.enter_context(progress("embedding"))
        pool = await stack.enter_async_context(open_postgres(settings))
        record = Record(pool)
        if settings.keyword_weights.length is None:
            await measure_lengths(record, pool, advanced=advanced)
        embedder, sparse = (
            await stack.enter_async_context(open_embedder(settings)),
            await sparse_encoder_of(settings),
        )
        if settings.qdrant_url is None:
            return await reembed(
                record,
                settings.data_dir / "index",
                embedder,
                sparse,
                min_free_bytes=settings.min_free_bytes,
                advanced=advanced,
            )
        index = index_of(settings, embedder, sparse)
        assert isinstance(index, QdrantIndex)
        stack.push_async_callback(index.close)
        return await reembed_on_server(record, index, dsn_of(settings), advanced=advanced)
