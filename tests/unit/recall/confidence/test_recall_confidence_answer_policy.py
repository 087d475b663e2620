from __future__ import annotations

from dataclasses import replace

import pytest

from orion_recall.recall.bundle.selection import SelectedItem, Selection
from orion_recall.recall.confidence.answer import AnswerConfidence
from orion_recall.recall.confidence.answer_policy import MIN_PROBABILITY, Answer, AnswerPolicy, minima_of
from tests.samples.found import asked, found
from tests.samples.recall_fakes import profile, query, scored

LACKING = found({"Rain again": (0.3, 0.1, 0.0), "Tamsin laughed": (0.25, 0.1, 0.0)})
UNDERSTOOD = asked("Where do I keep the spare anchor?")
FOUND = Selection(items=(SelectedItem(scored=scored("rain"), snippet="", line="", tokens=3),), tokens=3, dropped={})
UNJUDGED = AnswerConfidence(items={}, overall=0.9)


def policy(*, has_external: bool = False, greetings: bool = False) -> AnswerPolicy:
    least = profile(no_answer={"min_probability": 0.5, "greetings": greetings}).no_answer
    return AnswerPolicy(least=least, has_external=has_external)


def answered(by: AnswerPolicy, *, shape: str | None = None) -> Answer:
    understood = replace(UNDERSTOOD, shape="recap" if shape else None)
    return by.answer(FOUND, UNJUDGED, understood, LACKING)


def test_what_hardly_answers_is_withheld():
    answer = answered(policy())
    assert answer.selection.items == () and answer.withheld is not None
    assert answer.confidence.answerable.probability is not None


def test_beside_external_stores_nothing_is_judged_unlikely():
    answer = answered(policy(has_external=True))
    assert (answer.selection, answer.withheld) == (FOUND, None)
    assert answer.confidence.answerable.probability is None


def test_what_is_of_the_period_answers_a_recap():
    assert answered(policy(), shape="recap") == Answer(selection=FOUND, confidence=UNJUDGED, withheld=None)


@pytest.mark.parametrize(("greetings", "searches"), [(True, False), (False, True)])
def test_a_greeting_is_searched_for_unless_the_profile_says_otherwise(greetings: bool, searches: bool):
    understood = asked("Good evening!")
    assert (policy(greetings=greetings).before_search(query("Good evening!"), understood) is None) is searches
    assert policy(greetings=True).before_search(query("Where is the anchor?"), UNDERSTOOD) is None


def test_a_query_switches_the_minima_off_or_on():
    none, some = profile().no_answer, profile(no_answer={"min_confidence": 0.4, "greetings": True}).no_answer
    assert minima_of(some, None) == some and minima_of(none, None) == none
    assert not minima_of(some, False).is_on and not minima_of(some, False).greetings
    assert minima_of(some, True) == some, "the profile's own"
    assert minima_of(none, True).min_probability == MIN_PROBABILITY
    assert answered(AnswerPolicy(least=minima_of(none, True), has_external=False)).withheld is not None
    assert answered(AnswerPolicy(least=minima_of(policy().least, False), has_external=False)).withheld is None
