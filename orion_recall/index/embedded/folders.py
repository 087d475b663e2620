"""Folders of an embedded copy: the live one, builds, and the swap of a complete build.

    index/index.json, shard/, tokens/       the index, unless there is `current`
    index/builds/NAME/index.json, ...       a build, under way or complete (then: `complete`)
    index/current                           the NAME of the build that is the index now

So it is with the graph, whose files are in `store`. The swap is the writing of `current`, one rename: before it the
old copy is complete and live, after it the new one. The process with the folder's lock does it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

from orion_recall.engines.lock import LOCK_NAME, FolderLock
from orion_recall.errors import ModelError, SourceError
from orion_recall.index.metadata import FORMAT, IndexMetadata
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder

CURRENT, BUILDS, _BEGUN, _COMPLETE = "current", "builds", "begun", "complete"
METADATA_FILE = "index.json"


def live_place(folder: Path) -> Path:
    """Where the copy is: the folder itself, or the build that took its place. SourceError when that is gone."""
    try:
        name = (folder / CURRENT).read_text("utf-8").strip()
    except FileNotFoundError:
        return folder
    except (OSError, ValueError) as error:
        raise SourceError(f"{folder / CURRENT} cannot be read ({error}): delete {folder} to rebuild it") from error
    place = folder / BUILDS / name
    if Path(name).name != name or not name or not place.is_dir():
        raise SourceError(f"{folder / CURRENT} names no build that is there: delete {folder} to rebuild it")
    return place


def build_place(folder: Path, mine: IndexMetadata) -> Path:
    """Where an index of that metadata, but for its position, is built: a run that was stopped goes on there."""
    of_model = str(mine.format), mine.model, str(mine.dimension), mine.weights_sha256
    what = "\n".join((*of_model, *filter(None, (mine.tokens, mine.keywords))))
    return free_place(folder, hashlib.sha256(what.encode()).hexdigest()[:16])


def free_place(folder: Path, name: str) -> Path:
    """Where a copy of that name is built: of two places the one that is not the live one, the same until a swap."""
    first, second = folder / BUILDS / name, folder / BUILDS / f"{name}-again"
    return second if live_place(folder) == first else first


def begin(place: Path) -> None:
    """Readies the place; what a stopped run has left there stays, all else goes. EngineError: another builds."""
    with FolderLock.acquire(place, what="what is being built in", hint="or wait until it is done"):
        if (place / _BEGUN).exists():
            return
        for path in place.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK_NAME:
                path.unlink()
        (place / _BEGUN).touch()


def is_complete(place: Path) -> bool:
    """Whether a build may take the live one's place."""
    return (place / _COMPLETE).exists()


def mark_complete(place: Path) -> None:
    """From now on the build may take the live one's place. It must be closed, so that all of it is on disk."""
    (place / _COMPLETE).touch()


def swap(folder: Path, place: Path) -> None:
    """The build is the live copy from now on; what was before is deleted. Hold the locks of both folders."""
    before = live_place(folder)
    temporary = folder / f"{CURRENT}.new"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(f"{place.name}\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / CURRENT)
    for name in (_BEGUN, _COMPLETE):
        (place / name).unlink(missing_ok=True)
    if before not in (folder, place):
        shutil.rmtree(before, ignore_errors=True)
    tidy(folder, place)


def clear_builds(folder: Path) -> tuple[int, list[str]]:
    """Deletes builds that are not live: how many, and the names of those that another process builds now."""
    live, gone, held = live_place(folder), 0, list[str]()
    for place in sorted((folder / BUILDS).glob("*/")):
        if place == live:
            continue
        if (lock := FolderLock.try_acquire(place)) is None:
            held.append(place.name)
            continue
        with lock:
            gone += (place / _BEGUN).exists() or (place / _COMPLETE).exists()
            shutil.rmtree(place, ignore_errors=True)
    return gone, held


def tidy(folder: Path, place: Path) -> None:
    """Deletes what a swap that was cut short has left of the first copy."""
    if place != folder:
        (folder / "index.json").unlink(missing_ok=True)
        for name in ("shard", "tokens", "store"):
            shutil.rmtree(folder / name, ignore_errors=True)


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
        "`orion-recall memory rebuild index`"
    )


def read_metadata(place: Path, folder: Path) -> IndexMetadata:
    """The metadata in a folder, perhaps of an older format; SourceError that says what to do about `folder` when it
    is unreadable or newer."""
    file = place / METADATA_FILE
    try:
        metadata = IndexMetadata.read(json.loads(file.read_text("utf-8")))
    except (ValueError, TypeError, OSError) as error:
        raise SourceError(f"{file} cannot be read ({error}): delete {folder} and it will be rebuilt") from error
    if metadata.format > FORMAT:
        raise SourceError(f"the index in {folder} has format {metadata.format}: delete the folder to rebuild it")
    return metadata


def write_metadata(place: Path, metadata: IndexMetadata) -> None:
    """Writes all of the metadata; after a crash the old one is whole."""
    file = place / METADATA_FILE
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(metadata)), "utf-8")
    temporary.replace(file)
