from __future__ import annotations

from typing import Any

import pytest

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.selection import SelectedItem, Selection
from orion_recall.recall.confidence.answer import AnswerConfidence
from tests.unit.evaluation.test_evaluation_replay import gate
from orion_recall.recall.confidence.answerable import Answerable
from orion_recall.recall.confidence.factors import confidence
from tests.samples.layered import asked, cascading, ids, of_kind
from tests.samples.recall_fakes import profile, scored

FACT, OTHER = of_kind("world", "fact", "other")
(EPISODE,) = of_kind("experience", "episode")
FOUND = {FACT: 0.4, OTHER: 0.1}


async def test_the_confidence_of_an_answer_is_its_first_items(tokens: TokenCounter):
    recalled, _ = await asked(tokens, FOUND, profile())
    first, second = recalled.selection.items
    sure = [recalled.confidence.items[item.scored.candidate.key].overall for item in (first, second)]
    assert recalled.confidence.overall == sure[0] > sure[1]
    nothing, _ = await asked(tokens, {}, profile())
    assert (nothing.confidence.overall, nothing.confidence.items) == (None, {})


@pytest.mark.parametrize(
    ("least", "reason"),
    [
        ({"min_confidence": 0.61}, "the confidence of 0.609 is under the profile's minimum of 0.61"),
        ({"min_score": 0.99}, "the best score of 0.859 is under the profile's minimum of 0.99"),
    ],
)
async def test_what_is_not_sure_enough_is_no_answer_where_the_profile_says_so(
    tokens: TokenCounter, least: dict[str, float], reason: str
):
    recalled, _ = await asked(tokens, FOUND, profile(no_answer=least))
    assert (recalled.outcome, recalled.rendered, ids(recalled)) == ("empty", "", [])
    assert recalled.withheld is not None
    assert (recalled.withheld.reason, recalled.withheld.near_misses) == (reason, 2)
    assert recalled.selection.dropped == {"no_answer": 2}
    assert recalled.selection.tokens == 0
    assert recalled.confidence.overall == 0.609055, "how sure it would have been is still told"


@pytest.mark.parametrize("least", [{}, {"min_confidence": 0.6}, {"min_score": 0.8}])
async def test_what_is_sure_enough_is_handed_over(tokens: TokenCounter, least: dict[str, Any]):
    recalled, _ = await asked(tokens, FOUND, profile(no_answer=least))
    assert recalled.outcome == "ok"
    assert recalled.withheld is None
    assert ids(recalled) == ["fact", "other"]


async def test_a_cascade_comes_before_no_answer(tokens: TokenCounter):
    by = cascading(threshold=0.7)
    by = by.model_copy(update={"no_answer": profile(no_answer={"min_confidence": 0.7}).no_answer})
    recalled, _ = await asked(tokens, FOUND | {EPISODE: 0.9}, by)
    assert recalled.withheld is None
    assert "episode" in ids(recalled)
    recalled, _ = await asked(tokens, FOUND, by)
    assert (recalled.outcome, recalled.selection.dropped) == ("empty", {"no_answer": 2})


async def test_an_empty_answer_is_empty_and_not_withheld(tokens: TokenCounter):
    recalled, _ = await asked(tokens, {}, profile(no_answer={"min_confidence": 0.9}))
    assert (recalled.outcome, recalled.withheld) == ("empty", None)


def gated(probability: float | None, least: float) -> str | None:
    """The reason why an answer of one item is withheld."""
    item = SelectedItem(scored=scored("fact"), snippet="", line="", tokens=3)
    sure = confidence(relevance=0.9, quality=0.9, recency=0.9, consistency=0.9, completeness=0.9)
    of = AnswerConfidence(items={}, overall=sure.overall, answerable=Answerable(probability=probability))
    selection, withheld = gate(
        Selection(items=(item,), tokens=3, dropped={}), of, profile(no_answer={"min_probability": least}).no_answer
    )
    assert bool(selection.items) == (withheld is None)
    return withheld.reason if withheld else None


def test_an_unlikely_answer_is_withheld_under_the_threshold_and_not_at_it():
    assert gated(0.159, 0.16) == "the probability of an answer of 0.159 is under the profile's minimum of 0.16"
    assert gated(0.16, 0.16) is None
    assert gated(0.0, 0.0) is None, "the minimum is off"


def test_what_cannot_be_judged_is_handed_over():
    assert gated(None, 1.0) is None


@pytest.mark.parametrize("fragment", ["Good evening!", "Thanks, that was kind of you"])
async def test_a_greeting_is_not_searched_for_where_the_profile_says_so(tokens: TokenCounter, fragment: str):
    recalled, arms = await asked(tokens, FOUND, profile(no_answer={"greetings": True}), fragment=fragment)
    assert (recalled.outcome, recalled.reports, recalled.rendered) == ("empty", (), "")
    assert arms[0].requests == []
    assert recalled.withheld is not None
    assert recalled.withheld.reason in ("it is a greeting and asks nothing", "it is thanks and asks nothing")
    assert recalled.withheld.near_misses == 0
    assert recalled.understood is not None
    recalled, arms = await asked(tokens, FOUND, profile(), fragment=fragment)
    assert (recalled.outcome, len(arms[0].requests)) == ("ok", 1)


async def test_a_greeting_with_an_intent_is_searched_for(tokens: TokenCounter):
    by = profile(no_answer={"greetings": True})
    recalled, _ = await asked(tokens, FOUND, by, fragment="Hello!", intent="the crane")
    assert recalled.outcome == "ok"
