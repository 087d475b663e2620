from __future__ import annotations

import pytest

from orion_recall.graph.relation_words import compatibility, role_name


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("mum", "mother"),
        ("maman", "mother"),
        ("neighbor", "neighbour"),
        ("aunt", "aunt"),
        ("oma", "grandmother"),
        ("boss", "boss"),
    ],
)
def test_every_spelling_of_a_role_has_one_name(word: str, name: str) -> None:
    assert role_name(word) == name


@pytest.mark.parametrize(
    ("wanted", "relation", "backwards"),
    [
        ("mum", "mother of", True),
        ("mother", "mom of", True),
        ("mother", "daughter of", False),
        ("son", "mother of", False),
        ("parents", "father of", True),
        ("siblings", "sister of", True),
        ("wife", "husband of", True),
        ("boss", "reports to", False),
        ("boss", "manager of", True),
        ("boss", "leads", True),
        ("team lead", "team lead of", True),
        ("editor", "editor at", True),
        ("employer", "editor at", False),
        ("work", "head of sales at", False),
        ("conductor", "conducts", True),
        ("owner", "belongs to", False),
        ("owner", "owns", True),
        ("successor", "succeeded", True),
        ("bakery", "owns", False),
        ("nickname", "known as", False),
    ],
)
def test_a_word_finds_the_relation_from_either_end(wanted: str, relation: str, backwards: bool) -> None:
    fit, direction = compatibility(wanted, relation)
    assert fit >= 0.7
    assert direction == backwards


@pytest.mark.parametrize(
    ("wanted", "relation"), [("employer", "born at"), ("work", "rents at"), ("boss", "sister of")]
)
def test_other_relations_do_not_fit(wanted: str, relation: str) -> None:
    assert compatibility(wanted, relation)[0] < 0.7
