from __future__ import annotations

from dataclasses import replace

from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.ranking.calendar_order import calendar_order
from orion_recall.recall.understand.question import Understanding, understand
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.values import MemoryView, SuccessionLink, ToldTime
from tests.samples.recall_fakes import NOW, profile, query

DAY = 86_400.0
TOMORROW = ToldTime(NOW + DAY, NOW + 2 * DAY)


def understood(text: str) -> Understanding:
    return understand(query(text), profile(), now=NOW, speakers=frozenset())


def item(key: int, told: float, *times: ToldTime) -> ScoredCandidate:
    memory = MemoryView(id=str(key), text="", text_hash="", told=times)
    return ScoredCandidate(candidate=Candidate(key=key), memory=memory, score=1 / key, parts={"told": told})


def order(text: str, *told: float) -> list[int]:
    ranked = [item(place, one) for place, one in enumerate(told, start=1)]
    return [one.candidate.key for one in calendar_order(ranked, understood(text), Dropped())]


def test_what_tells_of_the_time_comes_first_and_few_others_follow():
    assert order("What is on tomorrow?", 0.0, 1.0, 0.1, 0.8, *[0.0] * 20) == [2, 4, 1, 3, 5, 6]


def test_the_successor_of_a_plan_of_the_time_stands_with_it():
    trip, others = item(12, 1.0, TOMORROW), [item(place, 1.0, TOMORROW) for place in range(1, 11)]
    ranked = [
        *others,
        item(11, 0.0),
        replace(trip, ended=SuccessionLink(11, "11", NOW, "by_person")),
        item(13, 0.0),
    ]
    kept = calendar_order(ranked, understood("What is on tomorrow?"), Dropped())
    assert [one.candidate.key for one in kept] == list(range(1, 13))


def test_days_come_in_their_order_then_longer_times_then_what_comes_again():
    ranked = [
        item(1, 1.0, ToldTime(NOW - 7 * DAY, NOW - 6 * DAY, weekly=True)),
        item(2, 1.0, ToldTime(NOW, NOW + 30 * DAY)),
        item(3, 1.0, ToldTime(NOW + 9 * DAY, NOW + 10 * DAY)),
        item(4, 1.0, ToldTime(NOW - 20 * DAY, NOW - 19 * DAY), TOMORROW),
    ]
    kept = calendar_order(ranked, understood("What's coming up?"), Dropped())
    assert [one.candidate.key for one in kept] == [4, 3, 2, 1]


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
