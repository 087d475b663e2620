"""Times in a text, as half-open intervals: a small set of exact forms, without guesses.

Days, months and years by the calendar (UTC), and words that are relative to the memory's own time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta

from orion_recall.values import TimeMention

MAX_TIMES = 12

_MONTHS = {
    name: number
    for number, names in enumerate(
        """january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sept sep|
        october oct|november nov|december dec""".split("|"),
        start=1,
    )
    for name in names.split()
}
_DAYS = {
    name: number for number, name in enumerate("monday tuesday wednesday thursday friday saturday sunday".split())
}
_COUNTS = {
    name: number
    for number, names in enumerate("a|an|one two three four five six seven eight nine ten".split(), start=1)
    for name in names.split("|")
}

_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"(?P<{0}>[0-3]?[0-9])(?:st|nd|rd|th)?\b"
_YEAR = r"[12][0-9]{3}\b"
_TIME = re.compile(
    rf"""\b(?:
    (?<![\w-])(?P<iso>[12][0-9]{{3}}-[01][0-9](?:-[0-3][0-9])?)(?![\w-])
    | {_DAY.format("day")}[ ](?:of[ ])?(?P<month>{_MONTH}),?[ ](?P<year>{_YEAR})
    | (?P<month_first>{_MONTH})[ ](?:{_DAY.format("day_second")},?[ ])?(?P<year_last>{_YEAR})
    | (?:in|since|of|during|until|by|from)[ ](?P<bare_year>{_YEAR})(?!-[0-9])
    | (?P<near>yesterday|today|tonight|tomorrow)\b
    | (?P<which>last|this|next)[ ](?P<unit>week|month|year|{"|".join(_DAYS)})\b
    | (?P<count>[1-9][0-9]?|{"|".join(_COUNTS)})[ ](?P<ago>day|week|month|year)s?[ ]ago\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
# Looked for first: most texts have none of it.
_HINT = re.compile(
    r"[0-9]{4}|day\b|\bago\b|tonight|tomorrow|\b(?:last|this|next) (?:week|month|year)", re.IGNORECASE
)
_NEAR = {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1}
_WHICH = {"last": -1, "this": 0, "next": 1}


def find_times(text: str, at: float | None) -> tuple[TimeMention, ...]:
    """The times named in a text in the order in which they stand there, at most 12, each interval once.

    `at` is the memory's own time; relative words of a memory without one name no time.
    """
    if not _HINT.search(text):
        return ()
    today = None if at is None else datetime.fromtimestamp(at, UTC).date()
    found: dict[tuple[float, float], TimeMention] = {}
    for match in _TIME.finditer(text):
        interval = _interval(match, today)
        if interval is not None:
            since, until = (_seconds(day) for day in interval)
            mention = TimeMention(text=" ".join(match[0].split()), since=since, until=until)
            found.setdefault((since, until), mention)
            if len(found) == MAX_TIMES:
                break
    return tuple(found.values())


def _interval(match: re.Match[str], today: date | None) -> tuple[date, date] | None:
    """The first day, and the first one after it; None when there is no such day, or it is not known which."""
    try:
        return next(iter(_absolute(match)), None) or (None if today is None else _relative(match, today))
    except (ValueError, OverflowError):  # the 31st of February, the year after the last
        return None


def _absolute(match: re.Match[str]) -> Iterator[tuple[date, date]]:
    if match["iso"]:
        year, month, *day = (int(part) for part in match["iso"].split("-"))
        yield _day(date(year, month, day[0])) if day else _month(date(year, month, 1))
    elif match["month"] or match["month_first"]:
        month = _MONTHS[(match["month"] or match["month_first"]).casefold().rstrip(".")]
        year = int(match["year"] or match["year_last"])
        day = match["day"] or match["day_second"]
        yield _day(date(year, month, int(day))) if day else _month(date(year, month, 1))
    elif match["bare_year"]:
        yield _year(date(int(match["bare_year"]), 1, 1))


def _relative(match: re.Match[str], today: date) -> tuple[date, date] | None:
    if match["near"]:
        return _day(today + timedelta(days=_NEAR[match["near"].casefold()]))
    if match["which"]:
        steps, unit = _WHICH[match["which"].casefold()], match["unit"].casefold()
        if unit in _DAYS:
            return _day(_weekday(today, _DAYS[unit], steps))
        return _whole(unit, today, steps)
    if match["count"]:
        given = match["count"].casefold()
        return _whole(match["ago"].casefold(), today, -(_COUNTS.get(given) or int(given)))
    return None


def _weekday(today: date, wanted: int, steps: int) -> date:
    """ "Last friday" is the latest before today, "next friday" the first after it, "this friday" the week's own."""
    if steps == 0:
        return today + timedelta(days=wanted - today.weekday())
    if steps < 0:
        return today - timedelta(days=(today.weekday() - wanted - 1) % 7 + 1)
    return today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)


def _whole(unit: str, today: date, steps: int) -> tuple[date, date]:
    """The day, week (from Monday), month or year so many steps away from the one that holds today."""
    make: dict[str, Callable[[], tuple[date, date]]] = {
        "day": lambda: _day(today + timedelta(days=steps)),
        "week": lambda: _week(today + timedelta(weeks=steps)),
        "month": lambda: _month(_months_away(today, steps)),
        "year": lambda: _year(date(today.year + steps, 1, 1)),
    }
    return make[unit]()


def _months_away(day: date, steps: int) -> date:
    years, month = divmod(day.month - 1 + steps, 12)
    return date(day.year + years, month + 1, 1)


def _day(day: date) -> tuple[date, date]:
    return day, day + timedelta(days=1)


def _week(day: date) -> tuple[date, date]:
    monday = day - timedelta(days=day.weekday())
    return monday, monday + timedelta(weeks=1)


def _month(first: date) -> tuple[date, date]:
    return first, _months_away(first, 1)


def _year(first: date) -> tuple[date, date]:
    return first, date(first.year + 1, 1, 1)


def _seconds(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
