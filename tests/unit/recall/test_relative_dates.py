"""Relative times: their dates in lines, and questions of a time alone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.bundle.relative_dates import with_dates
from orion_recall.recall.understand.question import Understanding, understand
from orion_recall.recall.understand.shape import without_times
from orion_recall.when.times import times
from tests.samples.recall_fakes import profile, query
from tests.samples.timing import grows_linearly

SAID = datetime(2026, 3, 4, 10, tzinfo=UTC).timestamp()  # a Wednesday
READ_AT = datetime(2026, 11, 20, tzinfo=UTC).timestamp()


def dated(text: str, said: float = SAID, zone: tzinfo = UTC) -> str:
    return with_dates(text, said, zone=zone, now=READ_AT)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I went there yesterday", "I went there yesterday [3 March]"),
        ("we met last Friday", "we met last Friday [27 February]"),
        ("Next week, we move", "Next week [9-15 March], we move"),
        ("The day before yesterday it snowed", "The day before yesterday [2 March] it snowed"),
        ("it was fine last year", "it was fine last year [2025]"),
        ("we start next month", "we start next month [April]"),
        ("since last Friday", "since last Friday [27 February]"),
    ],
)
def test_a_relative_time_is_followed_by_its_date(text: str, shown: str):
    assert dated(text) == shown


@pytest.mark.parametrize("text", ["", "every Friday", "an hour ago", "today"])
def test_other_times_stay_as_they_are(text: str):
    assert dated(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "in two weeks I read forty pages",
        "I'll never learn it in a month",
        "he said he'd be back in three days",
        "two weeks ago on Saturday",
        "a couple of days ago",
        "last Monday",
        "next weekend",
        "in the last month",
        "last Friday in May",
        'on Monday she told me "I leave tomorrow" and went',
        "the film The Day After Tomorrow is on",
    ],
)
def test_a_time_with_more_than_one_meaning_has_no_date(text: str):
    assert dated(text) == text


def test_days_are_those_of_the_askers_zone():
    late = datetime(2026, 3, 4, 23, 30, tzinfo=UTC).timestamp()
    assert (dated("yesterday", late), dated("yesterday", late, ZoneInfo("Asia/Tokyo"))) == (
        "yesterday [3 March]",
        "yesterday [4 March]",
    )


@given(st.lists(st.sampled_from(["yesterday", "next week", "last", "two days ago", "x", "[", "\n"])).map(" ".join))
def test_nothing_of_the_text_is_lost(text: str):
    shown = dated(text)
    for date in ("[3 March]", "[9-15 March]", "[2 March]"):
        shown = shown.replace(f" {date}", "", 1)
    assert shown == text


NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)  # a Wednesday
SPEAKERS = frozenset({"Hana", "Otto Brandt", "Rosa"})


def asked(text: str, **fields: object) -> Understanding:
    return understand(query(text, **fields), profile(), now=NOW.timestamp(), speakers=SPEAKERS)


@pytest.mark.parametrize(
    "text",
    [
        "What happened yesterday?",
        "What did we talk about on May 16th?",
        "Recap Monday for me",
        "Please summarise July 2025",
        "What's happened since Friday?",
        "What was going on last Thursday?",
        "What have I been up to this week?",
        "Any news from this morning?",
        "How did last week go?",
        "What was I working on yesterday?",
        "What was on my mind last week?",
        "Who wrote to me yesterday?",
        "Tell me about yesterday",
        "What did Otto do last weekend?",
        "What was the last conversation about?",
        "What changed last week?",
        "How have things changed this month?",
    ],
)
def test_a_time_alone_asks_for_a_recap(text: str):
    understood = asked(text)
    assert (understood.question.time.alone, understood.shape) == (True, "recap")


@pytest.mark.parametrize(
    "text",
    [
        "What happened to the boat yesterday?",
        "How was my week in Rome?",
        "Where was I last Thursday?",
        "Why did we talk yesterday?",
        "How many messages were there yesterday?",
        "What happened?",
        "Who changed the lock last week?",
    ],
)
def test_what_asks_for_more_than_a_time_is_no_recap(text: str):
    understood = asked(text)
    assert not understood.question.time.alone
    assert understood.shape != "recap"


@pytest.mark.parametrize(
    "text",
    [
        "What do I have on tomorrow?",
        "What have I got next week?",
        "Do I have time on Friday evening?",
        "Do I have anything planned for Sunday?",
    ],
)
def test_what_is_ahead_is_no_recap_though_it_names_a_time_alone(text: str):
    understood = asked(text)
    assert understood.question.time.of == "told"
    assert understood.shape != "recap"
    assert understood.question.time.alone is not text.startswith("Which")


@pytest.mark.parametrize(
    ("text", "searched"),
    [
        ("What did we say about the boat yesterday?", "What did we say about the boat?"),
        ("Which boats came since Monday, and whose?", "Which boats came, and whose?"),
        ("What did we plant in our second session?", "What did we plant in our?"),
    ],
)
def test_the_words_of_a_time_are_not_searched_for(text: str, searched: str):
    assert without_times(text, times(text, NOW)) == searched


@pytest.mark.parametrize(
    "part", ["a last week ", '"a" the last week ', "“x the last week ", "a: b. last Friday in May "]
)
def test_a_long_text_of_relative_times_is_read_in_time_that_grows_with_its_length(part: str):
    text = part * 10_000
    assert grows_linearly(lambda chars: dated(text[:chars]), 5_000, 50_000)


def test_a_long_text_of_colons_or_quotes_before_a_relative_time_is_too():
    for part in ("a: ", "“"):
        text = part * 50_000
        assert grows_linearly(lambda chars, text=text: dated(f"{text[:chars]}. the last week"), 5_000, 50_000)
