"""Of the near older memories the best are kept."""

from __future__ import annotations

from orion_recall.memory.succession.decide import SUCCEEDS
from orion_recall.memory.succession.find import MOST, Near, successions_of
from tests.samples.successions import DAY, reading


def test_the_older_memory_about_the_same_is_found_among_others() -> None:
    new = reading("Dr. Blum retired, Dr. Okafor is my dentist now.", at=DAY)
    others = ["My cat sleeps all day.", "Dr. Blum is my dentist.", "The bus was late.", "We had soup."]
    found = successions_of(new, [Near(reading(text), 0.5 if "Blum" in text else 0.1) for text in others])
    assert [one.old for one in found] == ["Dr. Blum is my dentist."]
    assert found[0].new == new.id


def test_at_most_three_are_kept_and_the_best_is_first() -> None:
    new = reading("The meeting on the garden was moved to Friday.", at=DAY)
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Sunday"]
    texts = [f"The meeting on the garden is on {day}." for day in days]
    near = [Near(reading(text), 0.9 - place / 50) for place, text in enumerate(texts)]
    found = successions_of(new, near)
    assert len(found) == MOST
    assert [one.confidence for one in found] == sorted((one.confidence for one in found), reverse=True)


def test_without_near_memories_nothing_is_found() -> None:
    assert successions_of(reading("I switched to Helix.", at=DAY), []) == []


def test_what_fits_much_less_well_than_the_best_is_alike_no_more() -> None:
    new = reading("The rehearsal with Berit was moved to Friday.", at=DAY)
    best, other = "The rehearsal with Berit is on Wednesday.", "Berit comes to dinner on Monday evening."
    near = [Near(reading(best), 0.8, 1), Near(reading(other), 0.5, 2)]
    assert [one.old for one in successions_of(new, near[1:]) if one.confidence >= SUCCEEDS] == [other]
    assert [one.old for one in successions_of(new, near) if one.confidence >= SUCCEEDS] == [best]
