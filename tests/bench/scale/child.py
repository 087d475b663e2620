"""Fills one of record, graph and index for `scale`, in a process of its own.

    python -m tests.bench.scale.child record|graph|index SIZE NOW FOLDER DSN

The record comes first: its database identity is written beside the stores, and the copies bear it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.bench.scale.graph import fill_graph
from tests.bench.scale.index import fill_index
from tests.bench.scale.memories import tenants
from tests.bench.scale.record import fill_record
from tests.bench.scale.stores import TOLD, settings_of


def main() -> None:
    """Fill what is asked for."""
    what, size, now, folder, dsn = sys.argv[1:]
    data, parts = Path(folder), tenants(int(size), now=float(now))
    if what == "record":
        told = {
            "identity": asyncio.run(fill_record(dsn, parts)),
            "now": float(now),
            "sessions": {part.tenant: list(part.sessions) for part in parts},
        }
        (data / TOLD).write_text(json.dumps(told), "utf-8")
        return
    identity = json.loads((data / TOLD).read_text("utf-8"))["identity"]
    if what == "graph":
        fill_graph(data / "graph" / "store", parts, position=int(size), identity=identity)
    else:
        asyncio.run(fill_index(settings_of(data, dsn), parts, position=int(size), identity=identity))


if __name__ == "__main__":
    main()
