"""The sample memories with times before now; repeated runs cause no conflicts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter

FRESH = timedelta(hours=2)
_DURATION = TypeAdapter(timedelta)


def sample_memories(now: datetime, first_run: datetime) -> Iterator[dict[str, Any]]:
    """Every memory of the sample in the import format, in the order of the file.

    What is fresh (`ago` of two hours at most) is counted from the beginning of the hour of `now` and has that
    hour in its id: the timeline, which looks back three hours, finds it in every run, and two runs in one hour
    agree. The rest is counted from `first_run`, which has to be the same in every run on one data folder.
    """
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    text = files("orion_recall.sample").joinpath("memories.jsonl").read_text("utf-8")
    for line in text.splitlines():
        memory: dict[str, Any] = json.loads(line)
        ago = _DURATION.validate_python(memory.pop("ago"))
        fresh = ago <= FRESH
        if fresh:
            memory["id"] = f"{memory['id']}@{hour:%Y-%m-%dT%H}"
        memory["occurred_at"] = ((hour if fresh else first_run.astimezone(UTC)) - ago).isoformat()
        yield memory
