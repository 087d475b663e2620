from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.understand.question import Understanding, understand
from orion_recall.text.normal import content_words, text_hash, words
from tests.samples.recall_fakes import NOW, profile, query

PLAIN = profile(enable_query_expansion=False)


def asked(fragment: str, *speakers: str, **fields: object) -> Understanding:
    return understand(query(fragment, **fields), PLAIN, now=NOW, speakers=frozenset(speakers))


def test_a_question_carries_text_clock_place_and_hash():
    question = asked("Where is Ana?", session_id="s", node_id="n").question
    assert (question.text, question.now, question.session_id, question.node_id) == ("Where is Ana?", NOW, "s", "n")
    assert question.text_hash == text_hash("where is ana")


def test_the_words_of_the_intent_join_the_keyword_search_only():
    question = asked("Where is Ana?", intent="plan repairs").question
    assert question.keyword_text == "Where is Ana? plan repairs"
    assert {"ana", "plan", "repairs"} == question.terms
    assert question.dense_text == question.text == "Where is Ana?"


def test_the_verb_is_never_searched_for():
    question = asked("Where is Ana?", verb="introspect").question
    assert "introspect" not in f"{question.keyword_text} {question.dense_text} {question.terms}"


def test_expansion_adds_to_the_keywords_and_leaves_the_embedded_text_alone():
    with_expansion = understand(query("What did Bo buy?"), profile(), now=NOW, speakers=frozenset()).question
    assert with_expansion.keyword_text == "What did Bo buy? bought"
    assert with_expansion.terms == {"bo", "buy", "bought"}
    assert with_expansion.dense_text == "What did Bo buy?"


def test_a_named_speaker_is_found_and_taken_out_of_the_embedded_text():
    understood = asked("What did Ana's crew repair, Ana?", "Ana", "Bo")
    assert understood.named_speaker == "Ana"
    assert understood.question.dense_text == "What did crew repair,"
    assert "Ana" in understood.question.keyword_text


@pytest.mark.parametrize(
    ("fragment", "named"),
    [
        ("What did Ana Silva mend?", "Ana Silva"),
        ("What did ana costa mend?", "Ana Costa"),
        ("What did Ana mend?", None),
        ("What did Dee mend?", "Dee Diaz"),
        ("What did Diaz mend?", None),
        ("What did Bo and Dee mend?", None),
        ("What did Bo mend?", "Bo"),
        ("What did Bo Berg mend?", "Bo Berg"),
        ("What will the doctor mend?", "The Doctor"),
        ("What will the crew mend?", None),
        ("What will Will Ward mend?", "Will Ward"),
        ("Who mends?", None),
    ],
)
def test_the_one_speaker_whom_the_question_names_is_known(fragment: str, named: str | None):
    speakers = ("Ana Silva", "Ana Costa", "Dee Diaz", "Bo", "Bo Berg", "The Doctor", "Will Ward", "???")
    assert asked(fragment, *speakers).named_speaker == named


def test_a_first_name_that_two_bear_is_taken_out_of_the_embedded_text_all_the_same():
    understood = asked("What did Ana mend?", "Ana Silva", "Ana Costa")
    assert understood.question.dense_text == "What did mend?"


def test_stop_words_in_a_speakers_name_do_not_eat_the_question():
    assert asked("What will the crew mend?", "The Doctor", "Will Ward").question.dense_text == (
        "What will the crew mend?"
    )


def test_a_very_long_fragment_is_searched_by_its_beginning():
    question = asked("cranes. " * 5000).question
    assert len(question.text) <= 4000
    assert question.terms == {"cranes"}


@given(st.text(min_size=1, max_size=200), st.frozensets(st.text(max_size=10), max_size=5))
def test_any_text_is_understood_the_same_way_twice(fragment: str, speakers: frozenset[str]):
    first = asked(fragment, *speakers)
    assert first == asked(fragment, *sorted(speakers, reverse=True))
    timed = {word for interval in first.question.time.intervals for word in words(interval.words)}
    assert first.question.terms >= set(content_words(fragment)) - timed
    assert first.named_speaker is None or first.named_speaker in speakers
    assert not first.question.text or first.question.dense_text


def test_days_begin_in_the_zone_of_the_options_else_at_the_offset_of_as_of_else_in_utc():
    starts = {
        name: asked("Who came yesterday?", options=options).question.time.intervals[0].start
        for name, options in (
            ("utc", None),
            ("offset", {"as_of": "2026-03-01T12:00:00+02:00"}),
            ("zone", {"as_of": "2026-03-01T12:00:00+02:00", "timezone": "Asia/Kolkata"}),
        )
    }
    midnight = NOW - NOW % 86400 - 86400
    # In Kolkata it is the next day already.
    later = midnight + 86400 - 5.5 * 3600
    assert starts == {"utc": midnight, "offset": midnight - 2 * 3600, "zone": later}


def test_a_speaker_who_is_called_like_a_month_is_none():
    assert asked("What came from April?", "April", "Bo").question.time.intervals == ()


def test_a_clock_beyond_the_calendar_leaves_the_question_without_a_time():
    understood = understand(query("Who came yesterday?"), PLAIN, now=1e20, speakers=frozenset())
    assert understood.question.time.intervals == ()


def test_the_profile_says_where_summer_is():
    south = profile(time={"hemisphere": "south"})
    question = understand(query("in the summer of 2021"), south, now=NOW, speakers=frozenset()).question
    assert question.time.intervals[0].start == datetime(2021, 12, 1, tzinfo=UTC).timestamp()
