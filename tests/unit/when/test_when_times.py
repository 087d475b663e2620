from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.when.times import times
from tests.samples.time_tables import table

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "America/Havana")


EXPRESSIONS = table("time_expressions.txt")


def local(moment: float | None, zone: tzinfo | None) -> str:
    if moment is None:
        return "-"
    return datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%dT%H:%M").removesuffix("T00:00")


def said(text: str, now: datetime) -> str:
    """The intervals in local time."""
    found = [f"{local(one.start, now.tzinfo)} | {local(one.end, now.tzinfo)}" for one in times(text, now).intervals]
    return " + ".join(found) or "none"


@pytest.mark.parametrize(
    ("now", "text", "interval"),
    EXPRESSIONS,
    ids=[f"{now:%Y-%m-%d}-{text.replace(' ', '-')}" for now, text, _ in EXPRESSIONS],
)
def test_an_expression_is_the_interval_of_the_table(now: datetime, text: str, interval: str):
    assert said(text, now) == interval


MOMENTS = st.datetimes(datetime(1901, 1, 1), datetime(2099, 12, 31))
WORDS = st.sampled_from(
    """the last this next in on since before after until between and from to of early mid late end first second week
    weekend day month year quarter decade ago three a few couple two May march april 7 7th 2023 1999 0 99 30 31 Feb
    29 february Monday friday summer winter spring fall yesterday today tomorrow tonight night morning evening
    Christmas Easter Thanksgiving New Year's Eve Q1 1990s '80s 5/7/2023 31.2.2024 2023-05-07 2024-02-30 , - half
    hours minutes holidays earlier later past coming by time session""".split()
)


def at(moment: datetime, zone: str) -> datetime:
    return moment.replace(tzinfo=ZoneInfo(zone))


@given(st.lists(WORDS, max_size=9).map(" ".join), MOMENTS, st.sampled_from(ZONES), st.booleans(), st.booleans())
def test_no_interval_is_empty_and_each_has_its_words(text: str, now: datetime, zone: str, south: bool, day: bool):
    for one in times(text, at(now, zone), south=south, day_first=day).intervals:
        assert one.start is None or one.end is None or one.start < one.end
        assert one.start is not None or one.end is not None
        assert one.words
        assert one.words in text


@given(st.text(max_size=60), MOMENTS)
def test_any_text_can_be_read(text: str, now: datetime):
    times(text, at(now, "UTC"))


@pytest.mark.parametrize(
    "words", ["yesterday", "last week", "last month", "last year", "last Friday", "3 days ago"]
)
@given(one=MOMENTS, other=MOMENTS, zone=st.sampled_from(ZONES))
def test_asked_later_it_is_never_earlier(words: str, one: datetime, other: datetime, zone: str):
    (earlier,), (later,) = (times(words, at(now, zone)).intervals for now in sorted((one, other)))
    assert earlier.start is not None and later.start is not None and earlier.end is not None
    assert earlier.start <= later.start
    assert later.end is not None
    assert earlier.end <= later.end


@given(MOMENTS, st.sampled_from(("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")))
def test_today_holds_now_and_yesterday_ends_where_it_begins(moment: datetime, zone: str):
    now = at(moment, zone)
    (today,), (yesterday,) = times("today", now).intervals, times("yesterday", now).intervals
    assert today.start is not None and today.end is not None
    assert today.start <= now.timestamp() < today.end
    assert yesterday.end == today.start


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("When did Ana leave?", True),
        ("What year did John start surfing?", True),
        ("On what date did we meet?", True),
        ("How long ago was her birthday?", True),
        ("How did she feel when she arrived?", False),
        ("What did Ana do last week?", False),
        ("Whenever it rains, who calls?", False),
    ],
)
def test_a_question_that_asks_for_a_time_is_told_from_one_that_names_it(text: str, asks: bool):
    assert times(text, NOW).asks_when is asks


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("Who came on 7 May 2023 with Bo?", "date", "7 May 2023"),
        ("Who came in the summer of 2021, Bo?", "period", "the summer of 2021"),
        ("Who came two weeks ago with Bo?", "relative", "two weeks ago"),
        ("Who came since last Friday by boat?", "open", "since last Friday"),
        ("Who came between May and July 2022?", "period", "between May and July 2022"),
    ],
)
def test_an_interval_tells_its_kind_and_the_words_that_decided_it(text: str, kind: str, words: str):
    (one,) = times(text, NOW).intervals
    assert (one.kind, one.words) == (kind, words)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("what did we do yesterday", True),
        ("what did we do yesterday evening", True),
        ("on 7 May 2023", True),
        ("a year ago today", True),
        ("three days ago", False),
        ("since Monday", True),
        ("before the 7th of May 2023", True),
        ("between 3 and 5 May", False),
    ],
)
def test_a_day_that_is_named_and_a_bound_are_exact(text: str, exact: bool):
    (one,) = times(text, NOW).intervals
    assert one.exact is exact


def test_a_name_that_is_a_month_is_a_month_only_beside_a_number():
    april = frozenset(("april",))
    assert times("what came from April", NOW, names=april).intervals == ()
    assert times("what came after April", NOW, names=april).intervals == ()
    (dated,) = times("what did April say on April 7", NOW, names=april).intervals
    assert dated.words == "April 7"


def test_seasons_of_the_south_are_half_a_year_away():
    (summer,) = times("in the summer of 2021", NOW, south=True).intervals
    assert (local(summer.start, UTC), local(summer.end, UTC)) == ("2021-12-01", "2022-03-01")


def test_the_order_of_day_and_month_can_be_chosen_for_slashes():
    (first,) = times("on 3/5/2023", NOW, day_first=True).intervals
    assert local(first.start, UTC) == "2023-05-03"
    (dots,) = times("on 3.5.2023", NOW).intervals
    assert local(dots.start, UTC) == "2023-05-03"


def test_a_day_that_a_zone_left_out_is_a_day_all_the_same():
    now = datetime(2011, 12, 31, 12, tzinfo=ZoneInfo("Pacific/Apia"))
    (day,) = times("yesterday", now).intervals
    assert day.start is not None and day.end is not None
    assert day.end - day.start == timedelta(days=1).total_seconds()


@pytest.mark.parametrize(("zone", "hours"), [("Europe/Berlin", 23), ("America/New_York", 24), ("UTC", 24)])
def test_a_day_of_a_change_of_clocks_has_its_own_length(zone: str, hours: int):
    (today,) = times("today", datetime(2024, 3, 31, 12, tzinfo=ZoneInfo(zone))).intervals
    assert today.start is not None and today.end is not None
    assert today.end - today.start == hours * 3600


@pytest.mark.parametrize("link", ["day before ", "night of the ", "two days after the ", "the week of "])
def test_a_long_chain_of_times_is_read_in_no_time(link: str):
    for end in ("Friday", "crane"):
        times(link * 400 + end, NOW)


@pytest.mark.parametrize("sign", ["-", "?", "– ", "...", "*", "=", "—!"])
def test_a_rule_of_signs_before_a_question_is_read_in_no_time(sign: str):
    (tomorrow,) = times(f"{sign * 60} Dentist tomorrow?", NOW).intervals
    assert tomorrow.words == "tomorrow"


def test_the_first_years_of_the_calendar_are_no_trap():
    for text in ("on February 29", "last winter", "a decade ago", "before yesterday", "today", "two hours ago"):
        for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
            times(text, at(datetime(1, 1, 1), zone))
            times(text, at(datetime(9999, 12, 31), zone))
