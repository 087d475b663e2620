"""Geometry of the console's charts, which the templates draw as SVG; numbers stand beside each in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orion_recall.decisions.overview import Interval

WIDTH, HEIGHT = 720, 120
_TOP, _BOTTOM = 2, 118


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A rectangle: `kind` is the class that styles it, `label` what it says."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line through points, in SVG's own syntax."""

    kind: str
    points: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart over time: bars or lines, the top of its scale, and what stands below its ends."""

    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()
    top: str
    starts: datetime
    ends: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One part of a whole as a bar of a hundred units: where it begins, and how long it is."""

    name: str
    value: float
    start: float
    length: float


def counts_chart(course: Sequence[Interval], since: datetime, width: timedelta, number: int) -> Chart:
    """Decisions by interval: answered at the bottom, then nothing found, then those without an answer."""
    top = max((one.count for one in course), default=0) or 1
    step = WIDTH / number
    bars: list[Bar] = []
    for one in course:
        x = step * ((one.began - since) / width)
        y = float(_BOTTOM)
        for kind, count in (
            ("answered", one.answered),
            ("empty", one.empty),
            ("without", one.count - one.answered - one.empty),
        ):
            height = (_BOTTOM - _TOP) * count / top
            y -= height
            if count:
                told = f"{one.began:%H:%M} UTC: {one.count} decisions, {one.answered} answered"
                bars.append(Bar(x=x + 0.5, y=y, width=max(step - 1, 1), height=height, kind=kind, label=told))
    return Chart(bars=tuple(bars), top=f"{top:,}", starts=since, ends=since + width * number)


def latency_chart(course: Sequence[Interval], since: datetime, width: timedelta, number: int) -> Chart:
    """Milliseconds by interval: the median, and what 95 % stayed within."""
    measured = [one for one in course if one.p50_ms is not None and one.p95_ms is not None]
    top = max((one.p95_ms or 0.0 for one in measured), default=0.0) or 1.0
    step = WIDTH / number

    def line(kind: str, values: Sequence[float | None]) -> Line:
        def point(one: Interval, value: float) -> str:
            x = step * ((one.began - since) / width + 0.5)
            return f"{x:.1f},{_BOTTOM - (_BOTTOM - _TOP) * value / top:.1f}"

        points = [point(one, value) for one, value in zip(measured, values, strict=True) if value is not None]
        return Line(kind=kind, points=" ".join(points * 2 if len(points) == 1 else points))

    lines = (line("p50", [one.p50_ms for one in measured]), line("p95", [one.p95_ms for one in measured]))
    return Chart(lines=lines if measured else (), top=f"{top:,.0f} ms", starts=since, ends=since + width * number)


def stacked(values: Mapping[str, float]) -> tuple[Share, ...]:
    """The values one after another, as parts of their sum."""
    whole = sum(values.values())
    found: list[Share] = []
    start = 0.0
    for name, value in values.items():
        length = 100 * value / whole if whole > 0 else 0.0
        found.append(Share(name=name, value=value, start=start, length=length))
        start += length
    return tuple(found)
