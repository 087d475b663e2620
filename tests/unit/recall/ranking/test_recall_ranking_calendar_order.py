from __future__ import annotations

from dataclasses import replace

from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.ranking.calendar_order import calendar_order
from orion_recall.recall.understand.question import Understanding, understand
from orion_recall.scoring.candidates import Candidate, Outdated, ScoredCandidate
from orion_recall.values import MemoryView, SuccessionLink
from tests.samples.recall_fakes import NOW, profile, query


def understood(text: str) -> Understanding:
    return understand(query(text), profile(), now=NOW, speakers=frozenset())


def item(key: int, told: float) -> ScoredCandidate:
    memory = MemoryView(id=str(key), text="", text_hash="")
    return ScoredCandidate(candidate=Candidate(key=key), memory=memory, score=1 / key, parts={"told": told})


def order(text: str, *told: float) -> list[int]:
    ranked = [item(place, one) for place, one in enumerate(told, start=1)]
    return [one.candidate.key for one in calendar_order(ranked, understood(text), Dropped())]


def test_what_tells_of_the_time_comes_first_and_few_others_follow():
    assert order("What is on tomorrow?", 0.0, 1.0, 0.1, 0.8, *[0.0] * 20) == [2, 4, 1, 3, 5, 6]


def test_what_cancels_a_plan_of_the_time_stands_with_it():
    trip, others = item(12, 1.0), [item(place, 1.0) for place in range(1, 11)]
    cancelled = item(11, 0.0)
    link = SuccessionLink(key=11, id="11", confidence=0.9, at=NOW, by="rule", reason="end: ")
    ranked = [*others, cancelled, replace(trip, outdated=Outdated(NOW, link, cancelled.memory)), item(13, 0.0)]
    kept = calendar_order(ranked, understood("What is on tomorrow?"), Dropped())
    assert [one.candidate.key for one in kept] == list(range(1, 13))


def test_a_long_answer_has_no_others():
    assert order("What is on tomorrow?", 0.0, *[1.0] * 10, 0.0) == list(range(2, 12))


def test_where_nothing_tells_of_the_time_all_stay():
    assert order("What is on tomorrow?", *[0.0] * 12) == list(range(1, 13))


def test_other_questions_keep_their_order():
    assert order("Who owns the crane?", 0.0, 1.0, 0.0) == [1, 2, 3]
    assert order("What did we talk about yesterday?", 0.0, 1.0) == [1, 2]


def test_what_is_left_out_is_of_another_time():
    dropped = Dropped()
    ranked = [item(place, 1.0 if place < 11 else 0.0) for place in range(1, 13)]
    calendar_order(ranked, understood("What is on tomorrow?"), dropped)
    assert dropped["other_time"] == 2


def test_a_calendar_is_asked_for_by_what_is_to_come():
    for text in ("What do I have on tomorrow?", "Do I have anything planned for Sunday?", "What is due on 3 May?"):
        assert understood(text).of_calendar, text
        assert understood(text).shape == "list", text
    for text in ("When is the dentist?", "What did we do yesterday?", "Who is coming?"):
        assert not understood(text).of_calendar, text
    assert replace(understood("What is on tomorrow?"), of_calendar=False).question.time.ahead
