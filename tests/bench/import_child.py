"""The importing side, a process of its own: imports the files that it is told, one a line on standard input.

    python -m tests.bench.import_child URL DSN

What `orion-recall import` does once it has started: the file over the bus, then the wait until index and graph have
it. Each answer is a line of JSON: memories, seconds, own CPU seconds and peak memory in MiB.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from orion_recall.client import RecallClient
from orion_recall.memory.record.record import Record
from orion_recall.memory.transfer.importer import import_file, wait_for_copies
from orion_recall.postgres.pool import open_pool
from tests.bench.measure import peak_memory_mib

_STALLED_S = 120.0


async def serve(url: str, dsn: str) -> None:
    """Import until standard input ends."""
    pool = await open_pool(dsn, name="bench-import", max_size=1)
    try:
        async with RecallClient.connect(url, service="bench-import") as client:
            print("ready", flush=True)
            while path := (await asyncio.to_thread(sys.stdin.readline)).strip():
                print(json.dumps(await _imported(client, Record(pool), Path(path))), flush=True)
    finally:
        await pool.close()


async def _imported(client: RecallClient, record: Record, path: Path) -> dict[str, float]:
    began, cpu = time.perf_counter(), time.process_time()
    summary = await import_file(client, path)
    stored_s = time.perf_counter() - began
    if summary.position is None or summary.rejected or summary.conflict:
        raise RuntimeError(f"not all of it was stored: {summary.describe()}")
    waited = await wait_for_copies(record, summary.position, stalled_s=_STALLED_S)
    if not waited.caught_up:
        raise RuntimeError(f"index and graph do not move: {waited}")
    return {
        "memories": summary.stored,
        "seconds": time.perf_counter() - began,
        "stored_seconds": stored_s,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": peak_memory_mib(os.getpid()),
    }


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2]))
