from __future__ import annotations

from orion_recall.profile import Profile
from orion_recall.recall.ranking.score import score_candidates
from orion_recall.scoring.candidates import Candidate
from orion_recall.scoring.part_values import QueryFacts
from orion_recall.time_values import TimeOf
from orion_recall.values import Interval, MemoryView, QuestionTime, ToldTime
from tests.samples.recall_fakes import key, profile, view

DAY = 86_400.0
NOW = 100 * DAY + 0.5 * DAY
YESTERDAY = Interval(99 * DAY, 100 * DAY, "relative", "yesterday", exact=True)


def parts(of: TimeOf, *memories: MemoryView, used: Profile | None = None) -> dict[str, tuple[object, object]]:
    facts = QueryFacts(now=NOW, time=QuestionTime(intervals=(YESTERDAY,), of=of))
    made = score_candidates(
        [(Candidate(key=key(one.id), fused=0.5), one) for one in memories],
        used or profile(ranking={"fusion": 0.5, "time": 1.0, "told": 1.0}),
        facts,
    )
    return {item.memory.id: (item.parts.get("time"), item.parts.get("told")) for item in made}


THEN = view("then", ts=99.5 * DAY)
REPORT = view("report", ts=100.2 * DAY, told=(ToldTime(99 * DAY, 100 * DAY),))
PLAN = view("plan", ts=90 * DAY, told=(ToldTime(99 * DAY, 100 * DAY),))
OTHER = view("other", ts=50 * DAY)


def test_what_happened_was_said_then_or_told_later_and_counts_once():
    assert parts("both", THEN, REPORT, PLAN, OTHER) == {
        "then": (1.0, None),
        "report": (0.8, None),
        "plan": (0.0, None),
        "other": (0.0, None),
    }


def test_what_was_said_then_is_that_alone():
    assert parts("said", THEN, REPORT) == {"then": (1.0, None), "report": (0.0, None)}


def test_what_is_told_of_a_time_is_that_whenever_it_was_said():
    assert parts("told", THEN, REPORT, PLAN) == {"then": (None, 0.0), "report": (None, 1.0), "plan": (None, 1.0)}


def test_where_no_time_is_named_any_told_one_fits_and_least_where_the_question_asks_when():
    coming = view("coming", told=(ToldTime(120 * DAY, 121 * DAY),))
    for asks_when, worth in ((False, 0.5), (True, 0.25)):
        facts = QueryFacts(now=NOW, time=QuestionTime(ahead=True, asks_when=asks_when))
        used = profile(ranking={"fusion": 0.5, "told": 1.0})
        (made,) = score_candidates([(Candidate(key=key("coming"), fused=0.5), coming)], used, facts)
        assert made.parts["told"] == worth
