from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from orion_recall.recall.when.times import times

TABLE = Path(__file__).with_name("time_expressions.txt")
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "America/Havana")


def expressions() -> list[tuple[datetime, str, str]]:
    """The anchor, what is said, and the interval as `from | until`, or `none`."""
    rows: list[tuple[datetime, str, str]] = []
    anchor = NOW
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("@"):
            moment, zone = line[1:].split()
            anchor = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone))
        elif line and not line.startswith("#"):
            said, _, interval = line.partition(" | ")
            rows.append((anchor, said, interval))
    return rows


EXPRESSIONS = expressions()


def local(moment: float | None, zone: tzinfo | None) -> str:
    if moment is None:
        return "-"
    return datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%dT%H:%M").removesuffix("T00:00")


def said(text: str, now: datetime) -> str:
    """The intervals in local time."""
    found = [f"{local(one.start, now.tzinfo)} | {local(one.end, now.tzinfo)}" for one in times(text, now).intervals]
    return " + ".join(found) or "none"


def test_the_table_is_as_long_as_it_should_be():
    assert len(EXPRESSIONS) >= 200


@pytest.mark.parametrize(
    ("now", "text", "interval"),
    EXPRESSIONS,
    ids=[f"{now:%Y-%m-%d}-{text.replace(' ', '-')}" for now, text, _ in EXPRESSIONS],
)
def test_an_expression_is_the_interval_of_the_table(now: datetime, text: str, interval: str):
    assert said(text, now) == interval
