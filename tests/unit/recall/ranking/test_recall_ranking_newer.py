"""Of memories that are alike the newer one is preferred, for questions about now."""

from __future__ import annotations

from typing import Any

from orion_recall.recall.ranking.changed_part import AskedChanges
from orion_recall.recall.ranking.newer import newer_alike
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from tests.samples.recall_fakes import NOW, key, view

ASKED = "What is the number of the night porter?"
OLD, NEW = "For the night porter ring 0113 47.", "The night porter has 0113 90, save it."


def item(name: str, text: str, score: float, *, day: float, **more: Any) -> ScoredCandidate:
    parts = more.pop("parts", {})
    memory = view(name, text, ts=NOW + (day - 30) * 86_400, session_id=more.pop("session", name), **more)
    return ScoredCandidate(candidate=Candidate(key=key(name)), memory=memory, score=score, parts=parts)


def better(*items: ScoredCandidate) -> set[int]:
    return set(newer_alike(items, AskedChanges(ASKED), now=NOW))


def test_the_newer_of_two_that_are_alike_passes_a_near_older_one() -> None:
    old = item("old", OLD, 0.8, day=1)
    found = newer_alike([old, item("new", NEW, 0.75, day=9)], AskedChanges(ASKED), now=NOW)
    assert found[key("new")].score > 0.8
    far = newer_alike([old, item("new", NEW, 0.55, day=9)], AskedChanges(ASKED), now=NOW)
    assert 0.55 < far[key("new")].score < 0.8


def test_what_is_not_alike_is_not_better_for_being_young() -> None:
    assert better(item("old", OLD, 0.8, day=1), item("new", "The kettle is in the yard.", 0.7, day=9)) == set()


def test_the_older_one_gains_nothing_nor_what_is_said_in_the_same_session_or_later_than_the_question() -> None:
    assert better(item("new", NEW, 0.8, day=9), item("old", OLD, 0.7, day=1)) == set()
    same = [item("old", OLD, 0.8, day=1, session="s"), item("new", NEW, 0.7, day=1.1, session="s")]
    assert better(*same) == set()
    assert better(item("old", OLD, 0.8, day=1), item("new", NEW, 0.7, day=31)) == set()


def test_chatter_and_questions_and_the_words_of_others_are_not_preferred() -> None:
    old = item("old", OLD, 0.8, day=1, parts={"speaker": 1.0})
    assert better(old, item("new", NEW, 0.7, day=9, chatter=True, parts={"speaker": 1.0})) == set()
    asks = "Does the night porter have 0113 90?"
    assert better(old, item("new", asks, 0.7, day=9, parts={"speaker": 1.0})) == set()
    assert better(old, item("new", NEW, 0.7, day=9, parts={"speaker": 0.0})) == set()
    assert better(old, item("new", NEW, 0.7, day=9, parts={"speaker": 1.0})) == {key("new")}
    user = item("old", OLD, 0.8, day=1, parts={"role": 1.0})
    assert better(user, item("new", NEW, 0.7, day=9, parts={"role": 0.0})) == set(), "an assistant's summary"


WISH, FACT = "I'd like a night porter with a number of his own.", "The night porter has the number 0113 90."


def test_a_wish_is_not_preferred_to_what_is_so() -> None:
    fact = item("fact", FACT, 0.8, day=1)
    assert better(fact, item("wish", WISH, 0.75, day=9)) == set()
    assert better(fact, item("again", "The night porter: 0113 55 is his number.", 0.75, day=9)) == {key("again")}


def test_a_decision_passes_the_wish_before_it_unless_wishes_are_asked_for() -> None:
    wish = item("wish", WISH, 0.8, day=1)
    decision = item("decision", "We hired a night porter with a number of his own.", 0.5, day=9)
    found = newer_alike([wish, decision], AskedChanges(ASKED), now=NOW)
    assert found[key("decision")].score > 0.8
    assert found[key("decision")].over is wish
    assert newer_alike([wish, decision], AskedChanges("Which night porter would I like?"), now=NOW) == {}


def test_what_tells_no_time_is_not_preferred_where_a_time_is_asked_for() -> None:
    changes = AskedChanges("When is the quiz at the Lamb?")
    timed = item("timed", "The quiz at the Lamb is on Tuesdays.", 0.8, day=1)
    plain = item("plain", "The quiz at the Lamb was fun.", 0.75, day=9)
    later = item("later", "The quiz at the Lamb is on Fridays.", 0.75, day=9)
    assert newer_alike([timed, plain], changes, now=NOW) == {}
    assert set(newer_alike([timed, later], changes, now=NOW)) == {key("later")}
