"""Roles in notes are the writer's, and what only looks like such a note states nothing."""

from __future__ import annotations

import pytest

from orion_recall.memory.extraction.light import extract


def stated(text: str, speaker: str | None = "Sam") -> list[tuple[str, str]]:
    found = extract(text, speaker).statements
    assert all(one.object == speaker for one in found)
    return [(one.subject, one.relation) for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Deputy: Kofi", [("Kofi", "deputy of")]),
        ("Deputy: Kofi Mensah. If I'm off, he has the bleep.", [("Kofi Mensah", "deputy of")]),
        ("Ward team\nDeputy: Kofi\nTrainee: Luna Park", [("Kofi", "deputy of"), ("Luna Park", "trainee of")]),
        ("Dentist: Dr Ruiz, 020 123", [("Ruiz", "dentist of")]),
        ("Cat: Mimi. Dog: Rex", [("Mimi", "cat of"), ("Rex", "dog of")]),
        ("New boss: Hilde Brandt (from Monday)", [("Hilde Brandt", "boss of")]),
        ("Sons: Leo and Max", [("Leo", "son of"), ("Max", "son of")]),
        ("Declan (husband) is allergic to nuts.", [("Declan", "husband of")]),
        ("Met Ana (boss) and Kofi (deputy) at the canteen.", [("Ana", "boss of"), ("Kofi", "deputy of")]),
    ],
)
def test_a_role_with_a_name_is_the_writers(text: str, expected: list[tuple[str, str]]) -> None:
    assert stated(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Director: Ang Lee",
        "Team: Ana, Bo",
        "Wife: none yet",
        "Vet: 12 euros",
        "User: Hi",
        "Assistant: Hello Tom, how are you?",
        "Manager: Anna wants it by Friday.",
        "Former boss: Hilde Brandt",
        "Tom came with Mia (daughter).",
        "Mia (two) sleeps",
        "Is Declan (husband) coming?",
    ],
)
def test_what_may_be_something_else_states_nothing(text: str) -> None:
    assert stated(text) == []


def test_nobody_is_the_writer_of_a_text_without_speaker() -> None:
    assert stated("Deputy: Kofi", None) == []
