from __future__ import annotations

import pytest

from orion_recall.memory.extraction.light import extract

Edge = tuple[str, str, str]


def stated(text: str) -> list[Edge]:
    return [(edge.subject, edge.relation, edge.object) for edge in extract(text, "Ana").statements]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mira Dahl is the new treasurer.", ("Mira Dahl", "treasurer of", "Ana")),
        ("The treasurer is Mira Dahl.", ("Mira Dahl", "treasurer of", "Ana")),
        ("Mira became my landlady.", ("Mira", "landlady of", "Ana")),
        ("Mira has been our vet since May.", ("Mira", "vet of", "Ana")),
        ("Mira (my sister) called.", ("Mira", "sister of", "Ana")),
        ("Mira is a cousin of mine.", ("Mira", "cousin of", "Ana")),
        ("Mira is a cousin of Bo's.", ("Mira", "cousin of", "Bo")),
        ("Bo has a cousin called Mira.", ("Mira", "cousin of", "Bo")),
        ("Mira and Bo are cousins.", ("Mira", "cousin of", "Bo")),
        ("Mira's pottery studio is called Lehm.", ("Lehm", "studio of", "Mira")),
        ("Mira's bakery, Villa Pan, is closed.", ("Mira", "owns", "Villa Pan")),
        ("My employer is Fjord Labs.", ("Ana", "works at", "Fjord Labs")),
        ("Uncle Bo sings.", ("Uncle Bo", "uncle of", "Ana")),
        ("Mira (that's my aunt) sings.", ("Mira", "aunt of", "Ana")),
        ("Mira's business partner is Bo.", ("Bo", "business partner of", "Mira")),
        ("Grandma was called Ada.", ("Ada", "grandmother of", "Ana")),
        ("My sister June sings.", ("June", "sister of", "Ana")),
        ("Mira, head of research at Fjord Labs, called.", ("Mira", "head of research at", "Fjord Labs")),
        ("Did you meet my sister Mira?", ("Mira", "sister of", "Ana")),
    ],
)
def test_a_role_is_stated_in_many_ways(text: str, expected: Edge) -> None:
    assert expected in stated(text)


def test_several_names_have_one_role() -> None:
    assert stated("I have two cousins, Mira and Bo.") == [("Mira", "cousin of", "Ana"), ("Bo", "cousin of", "Ana")]
    assert stated("My aunts Mira and Eva came.") == [("Mira", "aunt of", "Ana"), ("Eva", "aunt of", "Ana")]


def test_a_relative_who_was_named_is_known_afterwards() -> None:
    assert ("Bo", "boss of", "Mira") in stated("My sister Mira started a new job. Bo is my sister's boss.")
    assert ("Mira", "lives in", "Oslo") in stated("My sister is Mira. My sister lives in Oslo.")
    assert stated("My sister's boss is Bo.") == []


@pytest.mark.parametrize(
    "text",
    [
        "Mira was my boss.",
        "Mira will be my boss.",
        "Mira is not my boss.",
        "My boss is not Mira.",
        "Is Mira my boss?",
        "Mira is like a sister to me.",
        "My boss is Norwegian.",
        "My boss is Mira's cousin's friend.",
        "I invited Mira, my boss and Bo.",
        "Ask my boss, Mira knows nothing.",
        "If my boss were Mira, I would stay.",
        "Mira is the best.",
        "Ana Silva, head of research, says hello.",
        "Tom's Uncle Bo sings.",
        "Mira, the owner, is away.",
        "In June, my boss, as always, was late.",
    ],
)
def test_what_is_past_denied_asked_or_unclear_gives_nobody_a_role(text: str) -> None:
    assert [edge for edge in stated(text) if edge[1].endswith(" of")] == []
