"""Tables of phrases of time: an anchor line `@ time zone`, then `what is said | the times`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

TABLES = Path(__file__).parents[1] / "unit" / "when"


def table(name: str) -> list[tuple[datetime, str, str]]:
    """The anchor, what is said, and the times as the table writes them."""
    rows: list[tuple[datetime, str, str]] = []
    anchor = datetime(2026, 11, 22, 12, tzinfo=UTC)
    for line in (TABLES / name).read_text("utf-8").splitlines():
        if line.startswith("@"):
            moment, zone = line[1:].split()
            anchor = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone))
        elif line and not line.startswith("#"):
            said, _, times = line.partition(" | ")
            rows.append((anchor, said, times))
    return rows
