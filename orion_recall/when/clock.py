"""Clock times in a text: "14:15", "at 3 pm", "noon", "from 9 to 10:30", as minutes of a day."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_HOURS: Final = {
    word: hour
    for hour, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
}
_NAMED: Final = {"noon": 12, "midday": 12, "midnight": 24}
_HOUR_WORD = "|".join(_HOURS)
_ONE = rf"""(?:
      (?P<half>half\s+past|quarter\s+past|quarter\s+to)\s+(?P<of>{_HOUR_WORD}|1[0-2]|[1-9])\b
    | (?P<named>{"|".join(_NAMED)})\b
    | (?P<hour>2[0-4]|[01]?\d)(?:[:.](?P<minute>[0-5]\d))?
      (?:(?P<sure>\s?(?:(?P<half_day>[ap])\.?m\b\.?|o['’]?clock\b))|(?![\w:]|[.,/]\d))
    | (?P<word>{_HOUR_WORD})\b(?P<word_sure>\s+(?:(?P<word_half>[ap])\.?m\b\.?|o['’]?clock\b))?
    )"""
_CLOCK = re.compile(_ONE, re.VERBOSE | re.IGNORECASE)
_LEAD = re.compile(
    r"[\s,(:–-]*(?P<led>(?:at|@|from|between|around|about|by|before|after)\s+)?"
    r"(?:around\s+|about\s+|exactly\s+|the\s+)?",
    re.IGNORECASE,
)
_TO = re.compile(r"\s*(?:-|–|to|until|till|and)\s*", re.IGNORECASE)
# After a bare number that is led by "at": "at 5, please", "at 8 with Omar"; not "at 5 places".
_GOES_ON = re.compile(
    r"""\s*(?:$|[,.;:!?()–-]|(?:on|in|with|and|for|sharp|to|until|till|at|so|but|or|if|as|tomorrow|today|tonight|then|
        please|instead|from|by|the|we|i|you|he|she|they|it|is|was|mon|tues|wednes|thurs|fri|satur|sun)\b|\w+day\b)""",
    re.VERBOSE | re.IGNORECASE,
)
_BEFORE = re.compile(r"[\s,]+(?:on\s+)?$", re.IGNORECASE)
_MINUTES = 24 * 60
# Bare hours up to here are of the afternoon: nobody meets at five in the morning without saying so.
_BARE = 6


class Clock(NamedTuple):
    """The minutes of a day from `start` up to `end`, and the place in the text after them."""

    start: int
    end: int
    after: int


class _Point(NamedTuple):
    minutes: int
    after: int
    precise: bool = False
    sure: bool = True
    half_told: bool = False


def clock_after(text: str, place: int, *, pm_until: int = 0) -> Clock | None:
    """The clock time that follows, with the words that lead to it. Hours up to `pm_until` are of the afternoon."""
    lead = _LEAD.match(text, place)
    assert lead is not None  # it may be empty
    is_led = lead["led"] is not None
    if (first := _point(text, lead.end(), pm_until)) is None:
        return None
    joined = _TO.match(text, first.after)
    last = _point(text, joined.end(), pm_until) if joined is not None else None
    if last is not None and (last.sure or is_led):
        start, end = first.minutes, last.minutes
        if end <= start and not last.precise and end + 720 <= _MINUTES:
            end += 720
        if last.half_told and not first.half_told and start + 720 < end:
            start += 720  # "2 to 4 pm"
        if start < end:
            return Clock(start, end, last.after)
    if not first.sure and not (is_led and _GOES_ON.match(text, first.after)):
        return None
    return Clock(first.minutes, first.minutes + (1 if first.precise else 60), first.after)


def clock_before(text: str, place: int) -> tuple[int, Clock] | None:
    """The clock time that ends right before there, as in "at 14:15 on Friday", and where its words begin."""
    joined = _BEFORE.search(text, max(0, place - 8), place)
    if joined is None:
        return None
    start = max(0, joined.start() - 24)
    for match in re.finditer(r"(?<![\w.:,/-])(?:at\s+|@\s*|by\s+|around\s+)?[\w]", text[start : joined.start()]):
        found = clock_after(text, start + match.start())
        if found is not None and found.after == joined.start():
            return start + match.start(), found
    return None


def _point(text: str, place: int, pm_until: int) -> _Point | None:
    """One time of day. Bare hours from 1 to 6 are of the afternoon.

    A pattern that ignores case takes the letters \u0131 and \u017f for i and s; no word of a table has them.
    """
    if (match := _CLOCK.match(text, place)) is None:
        return None
    after, afternoon = match.end(), max(pm_until, _BARE)
    if (past := match["half"]) is not None:
        of = int(match["of"]) if match["of"].isdecimal() else _HOURS.get(match["of"].casefold())
        if of is None:
            return None
        minutes = 30 if past.casefold().startswith("half") else -15 if past.casefold().endswith("to") else 15
        return _Point(_hour(of, None, afternoon) * 60 + minutes, after, precise=True)
    if match["named"]:
        named = _NAMED.get(match["named"].casefold())
        return None if named is None else _Point(named * 60 % _MINUTES, after, half_told=True)
    if match["word"]:
        half, word = match["word_half"], _HOURS.get(match["word"].casefold())
        if word is None:
            return None
        is_sure = match["word_sure"] is not None
        return _Point(_hour(word, half, afternoon) * 60, after, sure=is_sure, half_told=half is not None)
    half, minute, sure = match["half_day"], match["minute"], match["sure"] is not None
    hour = _hour(int(match["hour"]), half, pm_until if minute or sure else afternoon)
    minutes = hour * 60 + int(minute or 0)
    if minute is not None and "." in match[0] and not sure:
        return _Point(minutes, after, precise=True, sure=False)  # 9.30 may be a price
    return _Point(minutes % _MINUTES, after, minute is not None, sure or minute is not None, half is not None)


def _hour(hour: int, half: str | None, pm_until: int) -> int:
    if half is not None:
        return hour % 12 + (12 if half.casefold() == "p" else 0) if hour <= 12 else hour
    return hour + 12 if 1 <= hour <= pm_until else hour % 24
