from __future__ import annotations

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.systems.turns import NOW, TENANT, new_questions, synthetic_turns
from tests.samples.source_samples import memory

REAL = [
    memory("a", "The harbour crane needs a new gearbox.", speaker="Ana"),
    memory("b", "Bo sold the old boat in May.", speaker="Bo"),
]
ASKED = [
    JudgedQuery(
        id="q",
        conversation="c",
        text="Who sold the boat?",
        category="any",
        evidence=frozenset({"b"}),
        asked_at=None,
        scored=True,
        line=1,
    )
]


def test_turns_are_of_the_words_of_real_ones_and_the_same_again() -> None:
    made = synthetic_turns(REAL, 45)
    words = {word for one in REAL for word in one.text.split()}
    assert {word for turn in made for word in turn.text.split()} <= words
    assert [turn.session_id for turn in made[::20]] == ["s0", "s1", "s2"]
    assert [turn.occurred_at for turn in made[-2:]] == [NOW - 60.0, NOW]
    assert [turn.id for turn in made] == [f"t{number}" for number in range(45)]
    assert synthetic_turns(REAL, 45) == made
    assert synthetic_turns(REAL, 5, first=40)[0].text == made[40].text


def test_questions_differ_from_one_measurement_to_the_next() -> None:
    one, other = (new_questions(ASKED, REAL, 20, what=what) for what in ("one", "other"))
    assert {each.conversation for each in one} == {TENANT}
    assert [each.text for each in one] != [each.text for each in other]
    assert all(each.text.startswith("Who sold the boat ") for each in one)
