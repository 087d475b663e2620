"""An optimised copy of the embedded index, made by a separate process while the live index is in use.

The engine builds its search structures under Python's lock: for ten thousand memories that takes most of a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from pathlib import Path

import qdrant_edge as qe

from orion_recall.errors import SourceError

_READ_BYTES = 1 << 20
_HOLE_BYTES = 1 << 16
_BLOCK_BYTES = 512  # of st_blocks, whatever the file system
_NICE = 10
_CONFIG, _AT_ONCE = "edge_config.json", 100


def copy_with_holes(source: str | Path, target: str | Path) -> None:
    """Copies a file's bytes, and leaves holes for zeros: an index has megabytes that are allocated and not used."""
    with Path(source).open("rb") as read, Path(target).open("wb") as written:
        while part := read.read(_HOLE_BYTES):
            if part.strip(b"\0"):
                written.write(part)
            else:
                written.seek(len(part), os.SEEK_CUR)
        written.truncate(read.tell())


def taken_bytes(folder: Path) -> int:
    """The bytes that the files in a folder take on the disk, without their holes."""
    return sum(path.stat().st_blocks * _BLOCK_BYTES for path in folder.rglob("*"))


def copy_shard(shard: Path, place: Path) -> Path:
    """A copy of the shard's files in the place; nothing may be written to the shard meanwhile."""
    copy = place / shard.name
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(shard, copy, copy_function=copy_with_holes)
    except OSError as error:
        raise SourceError(f"the index cannot be copied to {copy}: {error}") from error
    return copy


def read_through(shard: Path) -> None:
    """Brings the files into memory: the engine reads them under Python's lock, and lets them go when it closes."""
    buffer = bytearray(_READ_BYTES)
    for path in sorted(shard.rglob("*")):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass


async def optimise_apart(shard: Path, *, anew: bool = False) -> None:
    """Optimises the shard at that path in another process, ended with this call; SourceError when that failed.

    With `anew` its points are first written into a new shard, which takes its place: the engine's segments and log
    keep the bytes of deleted points.
    """
    command = (sys.executable, "-m", __name__, str(shard), *(("--anew",) if anew else ()))
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
    try:
        _, said = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode != 0:
        last = (said.decode(errors="replace").strip().splitlines() or ["no word"])[-1]
        raise SourceError(f"the process that optimises the index ended with {process.returncode}: {last}")


def points_of(records: Sequence[qe.Record]) -> list[qe.Point]:
    """The points that were read, to be written to another shard."""
    return [qe.Point(one.id, one.vector or {}, one.payload) for one in records]


def write_anew(shard: Path) -> None:
    """Writes the shard's points into a new one, which takes its place."""
    new = shard.with_name(f"{shard.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    before = qe.EdgeShard.load(str(shard))
    shutil.copy(shard / _CONFIG, new)  # an engine that finds nothing else makes an empty shard of that kind
    after = qe.EdgeShard.load(str(new))
    for name, index in before.info().payload_schema.items():
        after.update(qe.UpdateOperation.create_field_index(name, index.data_type))
    offset: qe.PointId | None = None
    while True:
        request = qe.ScrollRequest(offset=offset, limit=_AT_ONCE, with_payload=True, with_vector=True)
        records, offset = before.scroll(request)
        if records:
            after.update(qe.UpdateOperation.upsert_points(points_of(records)))
        if offset is None:
            break
    if after.info().points_count != before.info().points_count:
        raise SourceError("the new shard has not as many points as the old one")
    after.flush()
    after.close()
    before.close()
    shutil.rmtree(shard)
    new.rename(shard)


def main() -> None:
    """Optimise the shard named by the first argument; with --anew write it anew before."""
    os.nice(_NICE)
    if sys.argv[2:] == ["--anew"]:
        write_anew(Path(sys.argv[1]))
    shard = qe.EdgeShard.load(sys.argv[1])
    shard.optimize()
    shard.flush()
    shard.close()


if __name__ == "__main__":
    main()
