"""Ask every question of a data set through the in-process recall, and write a run file for a scorer.

    python -m tests.bench.recall_run --memories M.jsonl --queries Q.jsonl --profile reflect.v1 --out RUN.jsonl

The memories are imported as `orion-recall import` does it, every conversation as a tenant of its own, into embedded
engines in `--data` (default: a folder that is removed afterwards; a kept folder makes the next run quick). Every
question is asked at its own `query_date`. A line of the run holds `ranked` (the order before caps and budget) and
`selected` (what the bundle kept).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from orion_recall.bus.client import RecallClient
from orion_recall.contracts import RecallQueryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.import_file import ImportSummary, read_batches
from orion_recall.memory.import_mapping import read_mapping
from orion_recall.recall.pipeline import recall
from orion_recall.service import Service
from orion_recall.settings import Settings

MAP = "id=memory_id,tenant=conversation_id,occurred_at=turn_datetime"


async def imported(client: RecallClient, memories: Path, service: Service) -> ImportSummary:
    """The memories stored over the bus, and projected."""
    summary = ImportSummary(file=str(memories))
    position = 0
    for batch in read_batches(memories, read_mapping(MAP, timezone="UTC"), batch_size=200):
        receipt = await client.store(batch.memories, timeout_s=300)
        summary.add(batch, receipt)
        position = max(position, receipt.position or 0)
    while min(projection.position for projection in service.projections) < position:
        await asyncio.sleep(0.05)
    return summary


async def ask_all(service: Service, queries: list[dict[str, Any]], profile_name: str, out: Path) -> None:
    """One line a question."""
    profile = service.profiles[profile_name].profile
    began = time.perf_counter()
    with out.open("w", encoding="utf-8") as lines:
        for query in queries:
            now = (
                datetime.fromisoformat(query["query_date"]).replace(tzinfo=UTC) if query.get("query_date") else None
            )
            recalled = await recall(
                RecallQueryV1(fragment=query["query"]),
                profile,
                service.opened.sources,
                tenant=query["conversation_id"],
                now=now.timestamp() if now else None,
                timeout_s=30,
            )
            silent = [f"{r.source}: {r.error}" for r in recalled.reports if r.status in ("failed", "late")]
            if silent:
                print(f"{query['query_id']}: {silent}", file=sys.stderr)
            line = {
                "query_id": query["query_id"],
                "ranked": [item.memory.id for item in recalled.ranked],
                "selected": [item.scored.memory.id for item in recalled.selection.items],
            }
            lines.write(json.dumps(line) + "\n")
    seconds = time.perf_counter() - began
    print(
        f"{len(queries)} questions in {seconds:.1f} s ({seconds / len(queries) * 1000:.1f} ms each)",
        file=sys.stderr,
    )


async def run(arguments: argparse.Namespace, data_dir: Path) -> None:
    """Engines, import, questions."""
    queries = [json.loads(line) for line in arguments.queries.read_text("utf-8").splitlines() if line.strip()]
    async with EmbeddedEngines.start(data_dir) as engines:
        settings = Settings.read(
            redis_url=SecretStr(engines.redis_url),
            postgres_dsn=SecretStr(engines.postgres_dsn),
            data_dir=data_dir,
            tenants=("*",),
            profiles_dir=arguments.profiles,
            claim_idle_ms=600_000,
        )
        async with Service.start(settings) as service, RecallClient.connect(engines.redis_url) as client:
            ready = asyncio.Event()
            serving = asyncio.create_task(service.serve(ready))
            await ready.wait()
            began = time.perf_counter()
            summary = await imported(client, arguments.memories, service)
            print(f"{summary.describe()} ({time.perf_counter() - began:.1f} s)", file=sys.stderr)
            await ask_all(service, queries, arguments.profile, arguments.out)
            service.stop()
            await serving


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--profile", default="reflect.v1")
    parser.add_argument(
        "--profiles", type=Path, default=None, help="a folder of profiles (default: the shipped ones)"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=None)
    arguments = parser.parse_args()
    if arguments.data is not None:
        asyncio.run(run(arguments, arguments.data))
        return
    folder = Path(tempfile.mkdtemp(prefix="orion-run-", dir="/tmp"))
    try:
        asyncio.run(run(arguments, folder / "data"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
