from __future__ import annotations

from orion_recall.memory.names.propose import NamesUsed


def test_names_are_counted_by_memory_whatever_their_case() -> None:
    names = NamesUsed()
    names.add("a", ["Ana", "ana", "Oslo"])
    names.add("b", ["ANA"])
    names.add("c", ["Ana"])
    names.add("d", [])
    assert (list(names), len(names)) == (["ana", "oslo"], 2)
    assert (names.count("ana"), names.count("oslo")) == (3, 1)
    assert names.examples("ana", 2) == ("a", "b")


def test_the_spelling_of_most_memories_is_shown_and_the_first_of_several() -> None:
    names = NamesUsed()
    for number, said in enumerate(["ana", "Ana", "Ana", "bo", "BO"]):
        names.add(str(number), [said])
    assert (names.label("ana"), names.label("bo")) == ("Ana", "BO")


def test_two_names_are_together_in_one_memory_only() -> None:
    names = NamesUsed()
    names.add("a", ["Ana", "Bo"])
    names.add("b", ["Mira"])
    assert names.are_together("ana", "bo") and names.are_together("bo", "ana")
    assert not names.are_together("ana", "mira")
