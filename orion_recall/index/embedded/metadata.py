"""Metadata of the embedded index in its folder (`index.json`): read, written, compared with the embedder."""

from __future__ import annotations

import json
from pathlib import Path

from orion_recall.errors import ModelError, SourceError
from orion_recall.index.metadata import FORMAT, IndexMetadata
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder

METADATA_FILE = "index.json"


def metadata_if_known(embedder: Embedder, sparse: SparseEncoder) -> IndexMetadata | None:
    """The metadata of a new index; None while the embedding server is away."""
    try:
        return IndexMetadata.of(embedder, sparse)
    except ModelError:
        return None


def misfit_of(folder: Path, metadata: IndexMetadata, mine: IndexMetadata) -> str | None:
    """Why vectors made as `mine` says do not fit the index of that metadata; None when they do."""
    if (misfit := metadata.misfit(mine)) is None:
        return None
    return (
        f"the index in {folder} {misfit} delete the folder to rebuild it, or build a new index beside it with "
        "`orion-recall memory reembed`"
    )


def read_metadata(place: Path, folder: Path) -> IndexMetadata:
    """The metadata in a folder; SourceError that says what to do about `folder` when it is unreadable."""
    file = place / METADATA_FILE
    try:
        metadata = IndexMetadata(**json.loads(file.read_text("utf-8")))
        metadata = metadata.at(int(metadata.position))
    except (ValueError, TypeError, OSError) as error:
        raise SourceError(f"{file} cannot be read ({error}): delete {folder} and it will be rebuilt") from error
    if metadata.format != FORMAT:
        raise SourceError(f"the index in {folder} has format {metadata.format}: delete the folder to rebuild it")
    return metadata


def write_metadata(place: Path, metadata: IndexMetadata) -> None:
    """Writes all of the metadata; after a crash the old one is whole."""
    file = place / METADATA_FILE
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(metadata.values()), "utf-8")
    temporary.replace(file)
