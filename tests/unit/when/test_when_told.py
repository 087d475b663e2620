from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.when import told as told_module
from orion_recall.when.reading import Reading
from orion_recall.when.told import told_times
from tests.samples.time_tables import table
from tests.samples.timing import grows_linearly

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


ROWS = table("told_times.txt")


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M").removesuffix("T00:00")


def told(text: str, now: datetime | None = NOW) -> str:
    found = [
        f"{moment(one.since)} | {moment(one.until)}{' | weekly' if one.weekly else ''}"
        for one in told_times(text, now)
    ]
    return " + ".join(found) or "none"


@pytest.mark.parametrize(
    ("now", "text", "times"), ROWS, ids=[f"{now:%Y-%m-%d}-{text.replace(' ', '-')}" for now, text, _ in ROWS]
)
def test_a_statement_tells_the_times_of_the_table(now: datetime, text: str, times: str):
    assert told(text, now) == times


def test_without_the_time_of_saying_only_whole_dates_are_told():
    assert told("On Tuesday I ran, on 3 May, and on 3 May 2021", None) == "2021-05-03 | 2021-05-04"


def test_every_sentence_is_read_and_each_time_told_once():
    text = "Nothing here. " * 200 + "The vet is on Friday. Yes, on Friday!"
    assert told(text) == "2026-11-27 | 2026-11-28"


def test_as_many_are_told_as_are_wanted():
    text = " ".join(f"On {day} December at {day}:30 we meet." for day in range(1, 20))
    assert len(told_times(text, NOW)) == 12
    assert len(told_times(text, NOW, most=3)) == 3


WORDS = st.sampled_from(
    """on in at by until since from to the next last this every each Tuesday tuesdays Friday weekend morning
    14:15 3pm noon 3 3rd 19th 20th and or , . 30 November May 2027 2026-11-30 ran have booked moved week
    weeks two ago tomorrow yesterday tonight Christmas back before after half past six
    month year ; - between"""
    .split()
)  # fmt: skip


@given(st.lists(WORDS, max_size=12).map(" ".join), st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_no_time_is_empty_and_each_has_its_words(text: str, now: datetime):
    for one in told_times(text, now.replace(tzinfo=UTC)):
        assert one.since < one.until
        assert one.text


@pytest.mark.parametrize(
    "piece",
    ["the 3rd and ", "on Friday ", "at 3 ", ". ", "every ", "May , , ", "from 1 to ", "3 and ", "\n", "had to "],
)
def test_a_long_text_takes_linear_time(piece: str):
    def read(size: int) -> None:
        told_times(piece * (size // len(piece)) + " today", NOW, most=100_000)

    assert grows_linearly(read, 1_000, 10_000)


@pytest.mark.parametrize(
    "piece", ["in 2 days ", "in 2 days at ", "in two days 7 ", "in 2 days from ", "in 3 weeks 5 "]
)
def test_a_text_of_days_alone_looks_no_further_than_a_clock_time_stands(
    piece: str, monkeypatch: pytest.MonkeyPatch
):
    looked = 0

    def counted(read: Reading, place: int) -> bool:
        nonlocal looked
        looked += 1
        return False

    monkeypatch.setattr(told_module, "_is_a_day", counted)
    times = 1000 // len(piece)
    told_times(piece * times, NOW)
    assert looked <= 40 * times
