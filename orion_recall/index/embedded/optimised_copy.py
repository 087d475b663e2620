"""An optimised copy of the embedded index, made by a separate process while the live index is in use.

The engine builds its search structures under Python's lock: for ten thousand memories the whole worker would stand
still for most of a minute. So the shard is copied, another process works on the copy, what was written meanwhile is
brought over, and the copy takes the live one's place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import qdrant_edge as qe

from orion_recall.errors import SourceError

_NICE = 10
_READ_BYTES = 1 << 20


def copy_shard(shard: Path, place: Path) -> Path:
    """A copy of the shard's files in the place; nothing may be written to the shard meanwhile."""
    copy = place / shard.name
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(shard, copy)
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


async def optimise_apart(shard: Path) -> None:
    """Optimises the shard at that path in another process, ended with this call; SourceError when that failed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, str(shard), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    try:
        _, said = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode != 0:
        last = (said.decode(errors="replace").strip().splitlines() or ["no word"])[-1]
        raise SourceError(f"the process that optimises the index ended with {process.returncode}: {last}")


def main() -> None:
    """Optimise the shard named by the only argument."""
    os.nice(_NICE)
    shard = qe.EdgeShard.load(sys.argv[1])
    shard.optimize()
    shard.flush()
    shard.close()


if __name__ == "__main__":
    main()
