"""The process of an index whose model is words: bags of them as vectors, and one for each with `token_vectors`.

python -m tests.stand_ins.index_child DESCRIPTOR
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator

from orion_recall.models.embedder import Embedder
from orion_recall.serving.index_process.child import serve
from orion_recall.settings import Settings
from tests.samples.source_samples import HashingEmbedder, TokenEmbedder


@contextlib.asynccontextmanager
async def _embedder(settings: Settings) -> AsyncGenerator[Embedder]:
    yield (TokenEmbedder if settings.token_vectors else HashingEmbedder)(settings.model or "hashing")


if __name__ == "__main__":
    serve(int(sys.argv[1]), _embedder)
