"""Reasons of successions say in plain words what was seen."""

from __future__ import annotations

import pytest

from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.succession.reasons import other_values, phrases_said, plain, seen_in
from orion_recall.memory.told_changes.clauses import phrases_in
from orion_recall.text.normal import words
from tests.samples.successions import DAY, reading


def test_a_reason_has_the_words_as_they_are_written() -> None:
    new = reading("Tunis is off. The shipyard withdrew the permit.", at=DAY)
    judged = judge(new, reading("Tunis is settled: I record in the shipyard."))
    assert judged is not None
    assert plain(judged.reason) == 'it says "is off"; both say "shipyard", "Tunis"; read as: something is over'


def test_a_word_is_told_as_each_text_writes_it() -> None:
    new = reading("The lessons of Tunis are with Odd now, no longer with Bo.", at=DAY)
    judged = judge(new, reading("The lesson of Tunis is with Bo."))
    assert judged is not None
    assert 'both say "Bo", "lessons" or "lesson", "Tunis"' in plain(judged.reason)


def test_values_are_named_by_their_kind() -> None:
    new = reading("From now on the rent is 900 euros.", at=DAY)
    judged = judge(new, reading("The rent is 800 euros."))
    assert judged is not None
    told = plain(judged.reason)
    assert told.startswith('it says "from now on"')
    assert told.endswith("another amount of money; read as: something is different from now on, it is so now")


def test_another_day_at_the_same_time_is_not_called_another_time() -> None:
    kept = 'shift: it says "same time"; both say "class"; another weekday'
    assert plain(kept) == 'it says "same time"; both say "class"; another weekday; read as: another day'


def test_what_is_cancelled_is_told_before_what_is_shut() -> None:
    new = reading("A landslide, so the road is shut. I cancelled the trip to Tunis with Bo.", at=DAY)
    judged = judge(new, reading("I booked the trip to Tunis with Bo."))
    assert judged is not None
    assert plain(judged.reason).startswith('it says "cancelled"')


def test_who_cancels_what_another_has_booked_ends_it() -> None:
    old = reading("Booked it: we leave for Tunis with Bo on 2 October, two rooms in Pema Lodge.", speaker="Per")
    new = reading("The road is shut. I cancelled the Tunis trip, Pema Lodge gives half back.", at=DAY)
    judged = judge(new, old)
    assert judged is not None
    assert judged.confidence >= SUCCEEDS


def test_names_of_word_families_are_not_told() -> None:
    kept = 'present: it says "now"; both are about: editor, secret, training; another number'
    assert plain(kept) == 'it says "now"; another number; read as: it is so now'
    assert plain("value: both are about: boss") == "read as: another value"


def test_another_value_is_not_said_where_none_was_seen() -> None:
    assert plain('value: both say "Bee", "club"') == 'both say "Bee", "club"'


def test_a_reason_of_another_kind_stays_as_it_is() -> None:
    assert plain("") == ""
    assert plain("Lin said: it is so") == "Lin said: it is so"


def test_a_kept_reason_tells_which_values_differ() -> None:
    reason = seen_in(frozenset(), (), [("sing", "sing")], ["weekday", "name"])
    assert other_values(reason) == {"weekday", "name"}
    assert other_values(seen_in(frozenset(), (), [("another", "another")], [])) == frozenset()


@pytest.mark.parametrize(
    ("new", "cue"),
    [
        ("The cellar is flooded, the band can't move in on 3 May. The new date is 20 June.", "new date"),
        ("The cellar is flooded, so the band can't move in on 3 May, it's pushed back to 20 June.", "pushed back"),
        ("The band is moved to 20 June, and I'll reschedule the cellar's painters.", "moved"),
    ],
)
def test_another_time_is_told_by_the_phrase_of_the_clause_that_tells_it(new: str, cue: str) -> None:
    judged = judge(reading(new, at=DAY), reading("The band moves into the cellar on 3 May."))
    assert judged is not None
    assert f'"{cue}"' in plain(judged.reason)
    assert '"move"' not in plain(judged.reason)


def test_a_kept_reason_tells_the_phrases_that_were_seen():
    reason = seen_in(["end", "present"], ["sold", "now"], [("boat", "boat")], ["name"])
    assert phrases_said(reason) == ("sold", "now")
    assert phrases_said('value: both say "boat"') == ()


def test_another_name_is_no_word_that_both_say() -> None:
    old = reading("Alder Works school is done. Two worn pulleys, told Mr. Bexley we need parts from Turin.")
    new = reading("Pulleys from Turin came, we go on at Alder Works school from now on. Mr. Bexley paid.", at=DAY)
    judged = judge(new, old)
    assert judged is not None
    assert "another name" not in judged.reason


def test_after_all_this_time_says_no_change() -> None:
    assert "change" not in phrases_in(words("the pulleys came after all this time"))
    assert "change" in phrases_in(words("we take the tram after all"))


def test_a_negation_is_no_word_that_both_say() -> None:
    old = reading("Hanne doesn't own the mill.")
    judged = judge(reading("Hanne doesn't rent the mill now, she sold it.", at=DAY), old)
    assert judged is not None
    assert "doesn't" not in judged.reason
