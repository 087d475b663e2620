"""A question that says "now" gets what tells a change of what it asks about first; any other does not."""

from __future__ import annotations

import pytest

from orion_recall.recall.ranking.news import with_news
from orion_recall.scoring.candidates import NewerThan, ScoredCandidate
from orion_recall.values import Question
from tests.samples.ranked import item, question

KIT = "About my kit: I record every interview on the Zoom H5 and cut in Reaper."
BOUGHT = "Bought a MixPre second-hand. All interviews go through that one from now on."


def order(asked: Question, *items: ScoredCandidate) -> list[str]:
    return [one.memory.id for one in with_news(items, asked)]


NOWADAYS = question("Which recorder do I take to interviews these days?")


@pytest.fixture
def kit() -> ScoredCandidate:
    return item("kit", KIT, 0.6, day=1)


@pytest.fixture
def bought() -> ScoredCandidate:
    return item("bought", BOUGHT, 0.45, day=9)


def test_what_tells_the_change_is_first_and_says_why(kit: ScoredCandidate, bought: ScoredCandidate):
    found = with_news([kit, bought], NOWADAYS)
    assert [one.memory.id for one in found] == ["bought", "kit"]
    assert found[0].newer_than == NewerThan(kit.candidate.key, "kit", "news")
    assert found[0].score == pytest.approx(0.45 + 0.3 * 0.6, abs=1e-6)
    assert found[1].newer_than is None


@pytest.mark.parametrize(
    "asked",
    [
        question("Which recorder do I take to interviews?"),
        question("Which recorder did I take to interviews before?", "before"),
        question("Which recorder did I buy now and then?", None),
    ],
)
def test_a_question_that_does_not_ask_about_now_in_words_keeps_the_order(
    asked: Question, kit: ScoredCandidate, bought: ScoredCandidate
):
    assert order(asked, kit, bought) == ["kit", "bought"]


@pytest.mark.parametrize(
    ("text", "score", "day"),
    [
        pytest.param(BOUGHT, 0.2, 9, id="found much worse"),
        pytest.param(BOUGHT, 0.45, 0, id="older"),
        pytest.param("Choir rehearses on Thursdays from now on.", 0.45, 9, id="about something else"),
        pytest.param("All interviews were recorded well.", 0.45, 9, id="tells no change"),
        pytest.param("I wish all interviews went through a MixPre now.", 0.45, 9, id="a wish"),
        pytest.param("Do all interviews go through a MixPre from now on?", 0.45, 9, id="a question"),
        pytest.param(BOUGHT, 0.45, 1e6, id="after the question's time"),
    ],
)
def test_what_tells_no_such_change_keeps_its_place(text: str, score: float, day: float, kit: ScoredCandidate):
    assert order(NOWADAYS, kit, item("other", text, score, day=day)) == ["kit", "other"]


def test_chatter_keeps_its_place(kit: ScoredCandidate):
    assert order(NOWADAYS, kit, item("talk", BOUGHT, 0.45, day=9, chatter=True)) == ["kit", "talk"]


def test_where_an_amount_is_asked_for_a_change_without_one_keeps_its_place():
    asked = question("What does a hundred grams cost me now?", number=True)
    told = item("told", "Roza rang: it's 430 for the hundred grams.", 0.6, day=1)
    dear = item("dear", "I stick everything with silicone now. It costs double.", 0.45, day=2)
    nuns = item("nuns", "The nuns sell it now: 350 for a hundred grams.", 0.45, day=3)
    assert order(asked, told, dear, nuns) == ["nuns", "told", "dear"]
