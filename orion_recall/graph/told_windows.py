"""Time windows that the texts of memories tell, as the graph holds them: ISO 8601 intervals in UTC.

"2026-05-12T00:00:00Z/2026-05-13T00:00:00Z" is the twelfth of May. All have this one form, so that they sort and
compare as text. A statement has the windows of the memories that state it: they come and go with these. Of a time
that comes every week the graph has the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from rdflib.namespace import PROV

from orion_recall.graph.vocabulary import ORION, window
from orion_recall.values import TimeRange, ToldTime

TELLS = ORION.tells.n3()
_FIRST, _LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
_YEAR: Final = re.compile(r"\d{4}")
_MONTH: Final = re.compile(r"\d{4}-\d\d")
_EVIDENCE = PROV.wasDerivedFrom.n3()


def overlap_filter(variable: str, ranges: Sequence[TimeRange]) -> str:
    """A SPARQL expression that holds where the window overlaps one of the half-open intervals (epoch seconds)."""
    tests: list[str] = []
    for since, until in ranges:
        start, end = _instant(since, _FIRST), _instant(until, _LAST)
        tests.append(f'(STRBEFORE({variable}, "/") < "{end}" && STRAFTER({variable}, "/") > "{start}")')
    return f"({' || '.join(tests) or 'false'})"


def edge_tells(edge: str, ranges: Sequence[TimeRange], *, fresh: str = "told") -> str:
    """A SPARQL EXISTS that holds for an edge of which one memory tells of one of the intervals."""
    return (
        f"EXISTS {{ {edge} {_EVIDENCE} ?{fresh}_by . ?{fresh}_by {TELLS} ?{fresh}_at "
        f"FILTER{overlap_filter(f'?{fresh}_at', ranges)} }}"
    )


def read_window(window: str) -> ToldTime:
    """The window in epoch seconds; ValueError for text of another form."""
    start, _, end = window.partition("/")
    return ToldTime(datetime.fromisoformat(start).timestamp(), datetime.fromisoformat(end).timestamp())


def range_of(text: str) -> TimeRange:
    """A year, a month, a day or an instant in ISO 8601, or "from/to" of two such, as an interval of epoch seconds.

    Without a zone it is UTC. ValueError for anything else.
    """
    first, _, last = text.partition("/")
    try:
        since, _ = _span(first.strip())
        _, until = _span((last or first).strip())
    except OverflowError as error:
        raise ValueError("it ends after the year 9999") from error
    if until <= since:
        raise ValueError("it ends before it begins")
    return since.timestamp(), until.timestamp()


def _span(text: str) -> tuple[datetime, datetime]:
    if _YEAR.fullmatch(text):
        start = datetime(int(text), 1, 1, tzinfo=UTC)
        return start, start.replace(year=start.year + 1)
    if _MONTH.fullmatch(text):
        start = datetime.fromisoformat(f"{text}-01").replace(tzinfo=UTC)
        return start, (start + timedelta(days=31)).replace(day=1)
    start = datetime.fromisoformat(text)
    start = start if start.tzinfo is not None else start.replace(tzinfo=UTC)
    return start, start + (timedelta(days=1) if len(text) <= len("2026-05-12") else timedelta(seconds=1))


def shown(windows: Iterable[str]) -> str:
    """Windows in words, in order: a day as its date, a longer time from its first to its last day."""
    return ", ".join(dict.fromkeys(_shown(one) for one in sorted(windows)))


def _shown(one: str) -> str:
    start, _, end = one.partition("/")
    if not start.endswith("T00:00:00Z") or not end.endswith("T00:00:00Z"):
        return f"{start[:10]} {start[11:16]}" if start[:10] == end[:10] else f"{start[:16]} to {end[:16]}"
    last = datetime.fromtimestamp(datetime.fromisoformat(end).timestamp() - 1, UTC).date().isoformat()
    return start[:10] if start[:10] == last else f"{start[:10]} to {last}"


def _instant(seconds: float | None, beyond: str) -> str:
    if seconds is None:
        return beyond
    made = window(seconds, seconds)
    return beyond if made is None else made.partition("/")[0]
