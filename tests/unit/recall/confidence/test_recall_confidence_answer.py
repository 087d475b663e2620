from __future__ import annotations

from typing import Any

import pytest

from orion_recall.models.tokenizer import TokenCounter
from tests.samples.layered import asked, cascading, ids, of_kind
from tests.samples.recall_fakes import profile

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
