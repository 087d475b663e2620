from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orion_recall.recall.understand.chains import walks
from orion_recall.recall.understand.people import entities
from orion_recall.values import Chain
from orion_recall.when.times import times

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
ALL = ("who", "related", "temporal")


def asked(text: str, *, asker: str | None = "Mel", known: tuple[str, ...] = ()) -> tuple[Chain, ...]:
    return walks(text, ALL, named=entities(text, known), time=times(text, NOW), asker=asker)


@pytest.mark.parametrize(
    ("text", "seed"),
    [("Who is Hana Sato?", "Hana Sato"), ("who's hana again?", "hana"), ("Who am I?", "Mel")],
)
def test_who_somebody_is_begins_at_the_name(text: str, seed: str):
    (found,) = asked(text)
    assert (found.asks, found.seed, found.via, found.target) == ("who", seed, (), None)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("How is Ana related to Bo?", ("Ana", "Bo")),
        ("how are Ana and the pump connected?", ("Ana", "pump")),
        ("What connects Ana with Fjord Labs?", ("Ana", "Fjord Labs")),
        ("What is the relationship between Ana and \"Old Bo\"?", ("Ana", "Old Bo")),
        ("How do I know Bo?", ("Mel", "Bo")),
        ("How is Bo related to me?", ("Bo", "Mel")),
        ("What does Ana have to do with Umbra Works?", ("Ana", "Umbra Works")),
        ("What do Ana and Bo have in common?", ("Ana", "Bo")),
    ],
)  # fmt: skip
def test_a_relation_is_a_path_between_both_names(text: str, ends: tuple[str, str]):
    (found,) = asked(text)
    assert (found.asks, (found.seed, found.target)) == ("related", ends)


def test_the_time_of_a_relation_is_no_part_of_a_name():
    first = asked("What is the connection between Ana and Bo in 2020?")[0]
    assert (first.asks, first.seed, first.target) == ("related", "Ana", "Bo")


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ('What did Ana do to the "old pump" on 12 May 2026?', ["old pump", "Ana"]),
        ("What did Ana do in May?", ["Ana"]),
        ("what did ana do on 12 May 2026?", ["Ana"]),
        ("What happened to the pump on 12 May 2026?", ["", "Mel"]),
        ("What happened yesterday?", ["", "Mel"]),
    ],
)
def test_a_time_is_looked_for_at_quoted_then_capitalised_then_known_names_and_last_at_the_asker(
    text: str, seeds: list[str]
):
    found = asked(text, known=("Ana",) if "ana" in text.casefold() else ())
    assert [(one.asks, one.seed) for one in found] == [("temporal", seed) for seed in seeds]


@pytest.mark.parametrize(
    "text", ["", "What did Ana say?", "Who is my boss?", "How are you?", "How is Ana related to Ana?"]
)
def test_other_questions_ask_for_no_walk(text: str):
    assert asked(text) == ()


def test_nobody_is_walked_from_where_nobody_knows_who_asks():
    assert asked("Who am I?", asker=None) == ()
    assert asked("How do I know Bo?", asker=None) == ()
    assert [one.seed for one in asked("What happened yesterday?", asker=None)] == [""]


def test_only_the_kinds_that_are_on_are_found():
    text = "Who is Hana?"
    assert walks(text, (), named=(), time=times(text, NOW)) == ()
    assert walks(text, ("related", "temporal"), named=(), time=times(text, NOW)) == ()


def test_runs_of_blanks_are_read_as_one():
    """Tried at every place, these would take minutes."""
    text = "path from" + " " * 400 + "Ana to" + " " * 400 + "Bo in" + " " * 40 + "?x"
    assert asked(text) == ()
    assert [one.target for one in asked(f"How is Ana{' ' * 100}related to Bo?")] == ["Bo"]
