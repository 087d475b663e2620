"""Reasons of successions say in plain words what was seen."""

from __future__ import annotations

from orion_recall.memory.succession.decide import judge
from orion_recall.memory.succession.reasons import other_values, plain, seen_in
from tests.samples.successions import DAY, reading


def test_a_reason_has_the_words_as_they_are_written() -> None:
    new = reading("Tunis is off. The shipyard withdrew the permit.", at=DAY)
    judged = judge(new, reading("Tunis is settled: I record in the shipyard."))
    assert judged is not None
    assert plain(judged.reason) == 'something is over: it says "is off"; both say "shipyard", "Tunis"'


def test_values_are_named_by_their_kind() -> None:
    new = reading("From now on the rent is 900 euros.", at=DAY)
    judged = judge(new, reading("The rent is 800 euros."))
    assert judged is not None
    assert plain(judged.reason).startswith(
        'something is different from now on, it is so now: it says "from now on"'
    )
    assert plain(judged.reason).endswith("another amount of money")


def test_names_of_word_families_are_not_told() -> None:
    kept = 'present: it says "now"; both are about: editor, secret, training; another number'
    assert plain(kept) == 'it is so now: it says "now"; another number'
    assert plain("value: both are about: boss") == "another value"


def test_a_reason_of_another_kind_stays_as_it_is() -> None:
    assert plain("") == ""
    assert plain("Lin said: it is so") == "Lin said: it is so"


def test_a_kept_reason_tells_which_values_differ() -> None:
    reason = seen_in(frozenset(), (), ["sing"], ["weekday", "name"])
    assert other_values(reason) == {"weekday", "name"}
    assert other_values(seen_in(frozenset(), (), ["another"], [])) == frozenset()
