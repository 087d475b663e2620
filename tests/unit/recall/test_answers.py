"""What is handed over: the nearest few where nothing clearly answers, nothing where nothing is asked."""

from __future__ import annotations

from typing import Any

import pytest

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.confidence.answer import UNSURE_NOTE
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.reply import reply
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view

TEXTS = (
    "Ada moved to Lisbon for the new job at the observatory.",
    "The kiln was fired twice in March.",
    "Bread rises better in the small oven.",
    "The ferry leaves from the east pier.",
    "Odd keeps bees behind the shed.",
)
ALL = [view(f"m{n}", text, ts=NOW - 86_400 * (n + 1)) for n, text in enumerate(TEXTS)]


async def ask(tokens: TokenCounter, fragment: str, *, options: Any = None, **changes: Any) -> Recalled:
    near = [hit(memory.id, 0.3 - place / 100) for place, memory in enumerate(ALL)]
    made = sources(tokens, [FakeSource("vector", near), FakeSource("lexical")], *ALL, has_external=False)
    fields = {} if options is None else {"options": options}
    return await recall(query(fragment, **fields), profile(**changes), made, now=NOW)


def shown(recalled: Recalled) -> list[str]:
    return [item.scored.memory.id for item in recalled.selection.items]


@pytest.mark.parametrize("question", ["Where does Ada live?", "Who repairs umbrellas?", "Which planet is largest?"])
@pytest.mark.parametrize("when_unsure", ["note", "plain"])
async def test_where_nothing_clearly_answers_the_nearest_three_are_handed_over_as_unsure(
    tokens: TokenCounter, question: str, when_unsure: str
) -> None:
    recalled = await ask(tokens, question, unsure_below=1.0, when_unsure=when_unsure)
    assert (recalled.outcome, recalled.is_unsure, recalled.withheld) == ("ok", True, None)
    assert shown(recalled) == [item.memory.id for item in recalled.ranked[:3]]
    assert recalled.selection.dropped == {"unsure": 2}
    first, *_ = recalled.rendered.splitlines()
    assert (first == UNSURE_NOTE) == (when_unsure == "note")
    assert len(recalled.rendered.splitlines()) == 3 + (when_unsure == "note")


async def test_reply_decision_and_candidates_have_unsure_as_data(tokens: TokenCounter) -> None:
    recalled = await ask(tokens, "Where does Ada live?", options={}, unsure_below=1.0)
    written = reply(query(options={}), recalled, latency_ms=1.0, profile="p", decision_id="d")
    assert written.bundle.stats.unsure is True
    plain = reply(query(), recalled, latency_ms=1.0, profile="p", decision_id="d")
    assert "unsure" not in plain.bundle.stats.model_fields_set
    facts = RequestFacts(decision_id="d", corr_id="c", query=query(), tenant="default", profile="p", candidates=20)
    made = decision(facts, outcome="ok", latency_ms=1.0, recalled=recalled)
    assert made.unsure
    assert [one.dropped for one in made.candidates or ()] == [None, None, None, "unsure", "unsure"]


async def test_the_note_and_the_items_stay_in_the_budget(tokens: TokenCounter) -> None:
    for budget in range(20, 120, 7):
        recalled = await ask(tokens, "Where does Ada live?", unsure_below=1.0, when_unsure="note",
                             render_budget_tokens=budget)  # fmt: skip
        assert tokens.count(recalled.rendered) <= budget


async def test_a_query_may_want_everything_or_nothing_that_is_unsure(tokens: TokenCounter) -> None:
    whole = await ask(tokens, "Where does Ada live?", options={"no_answer": False}, unsure_below=1.0)
    assert (len(shown(whole)), whole.is_unsure) == (5, False)
    nothing = await ask(tokens, "Where does Ada live?", options={"no_answer": True}, unsure_below=1.0)
    assert (nothing.outcome, nothing.rendered, shown(nothing)) == ("empty", "", [])
    assert nothing.withheld is not None
    assert (nothing.withheld.reason, nothing.withheld.minimum) == ("below_min_probability", 1.0)


@pytest.mark.parametrize(
    ("least", "reason"),
    [({"min_confidence": 0.99}, "below_min_confidence"), ({"min_score": 1.0}, "below_min_score")],
)
async def test_a_profile_may_withhold_what_is_below_its_minimum(
    tokens: TokenCounter, least: dict[str, float], reason: str
) -> None:
    recalled = await ask(tokens, "Where does Ada live?", no_answer=least)
    assert recalled.withheld is not None
    assert recalled.withheld.reason == reason
    assert recalled.withheld.value is not None
    assert recalled.withheld.value < (recalled.withheld.minimum or 0)
    assert recalled.withheld.near_misses == len(recalled.ranked)
    assert recalled.selection.dropped == {"no_answer": 5}


@pytest.mark.parametrize(
    "fragment", ["?", "…", "!!! --- ...", "👍", "🙂🙂", "\u200b", "\u2060\ufeff", "\x00", "the", "x", " a "]
)
async def test_a_fragment_without_a_word_is_empty_with_its_reason(tokens: TokenCounter, fragment: str) -> None:
    recalled = await ask(tokens, fragment)
    assert (recalled.outcome, recalled.rendered, recalled.reports) == ("empty", "", ())
    assert recalled.withheld is not None
    assert (recalled.withheld.reason, recalled.withheld.near_misses) == ("no_words", 0)


@pytest.mark.parametrize("fragment", ["Ada", "42", "船", "C++?", "5?"])
async def test_a_fragment_with_a_word_is_searched_for(tokens: TokenCounter, fragment: str) -> None:
    recalled = await ask(tokens, fragment)
    assert recalled.reports


@pytest.mark.parametrize(
    ("fragment", "reason"),
    [
        ("Good morning!", "greeting"),
        ("thanks a lot", "thanks"),
        ("Bye for now", "farewell"),
        ("ok", "acknowledgement"),
    ],
)
async def test_small_talk_is_not_searched_for_where_the_profile_says_so(
    tokens: TokenCounter, fragment: str, reason: str
) -> None:
    recalled = await ask(tokens, fragment, no_answer={"greetings": True})
    assert recalled.withheld is not None
    assert (recalled.withheld.reason, recalled.reports) == (reason, ())
    assert (await ask(tokens, fragment)).reports


async def test_an_intent_with_words_is_searched_for_whatever_the_fragment_is(tokens: TokenCounter) -> None:
    made = sources(tokens, [FakeSource("vector", [hit("m1", 0.5)])], *ALL)
    recalled = await recall(query("?", intent="the kiln"), profile(), made, now=NOW)
    assert shown(recalled) == ["m1"]
