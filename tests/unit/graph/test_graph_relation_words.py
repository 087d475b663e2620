from __future__ import annotations

import pytest

from orion_recall.graph.relation_words import (
    SYMMETRIC,
    compatibility,
    fitting,
    folded,
    kinds_of_ends,
    most_frequent_kind,
    relations_of_kind,
    role_name,
    stem,
)


@pytest.mark.parametrize("name", ["WORKS_AT", "works at", "Works-at!", "`works  at`"])
def test_case_marks_and_underscores_make_no_other_relation(name: str):
    assert folded(name) == "works at"


def test_forms_of_a_word_share_a_stem():
    assert {stem(word) for word in ("employer", "employed", "employs", "employment")} == {"employ"}
    assert stem("was") == "was"


@pytest.mark.parametrize(
    ("wanted", "relation", "fits"),
    [
        ("knows", "knows", (1.0, False)),
        ("sister", "sister of", (1.0, True)),
        ("employer", "works at", (0.8, False)),
        ("employee", "works at", (0.8, True)),
        ("founder", "founded", (0.8, True)),
        ("lover", "loves", (0.9, False)),
        ("manager", "managed by", (0.8, False)),
        ("brother", "works at", (0.0, False)),
        ("", "works at", (0.0, False)),
        ("?!", "works at", (0.0, False)),
    ],
)
def test_words_fit_relations(wanted: str, relation: str, fits: tuple[float, bool]):
    assert compatibility(wanted, relation) == fits


def test_the_more_words_are_shared_the_better_it_fits():
    better, worse = (
        compatibility("plays football", "plays football for")[0],
        compatibility("plays", "plays chess")[0],
    )
    assert 0 < worse < better < 0.9 or better == 0.9


def test_only_what_fits_at_all_is_given():
    assert set(fitting("sister", ["sister of", "knows", "works at"])) == {"sister of"}


def test_the_relations_that_hold_both_ways_are_names_of_relations():
    assert "coworker of" in SYMMETRIC and "neighbour of" in SYMMETRIC


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
        ("owner", "belongs to", False),
        ("owner", "owns", True),
        ("nickname", "known as", False),
    ],
)
def test_a_word_finds_the_relation_from_either_end(wanted: str, relation: str, backwards: bool) -> None:
    fit, direction = compatibility(wanted, relation)
    assert fit >= 0.7
    assert direction == backwards


@pytest.mark.parametrize(
    ("wanted", "relation"), [("employer", "born at"), ("work", "met at"), ("boss", "sister of")]
)
def test_other_relations_do_not_fit(wanted: str, relation: str) -> None:
    assert compatibility(wanted, relation)[0] < 0.7


def test_relations_tell_what_stands_at_their_ends():
    assert kinds_of_ends("Works at") == ("Person", "Organisation")
    assert kinds_of_ends("based in") == ("Organisation", "Place")
    assert kinds_of_ends("sister of") == ("Person", "Person")
    assert kinds_of_ends("loves") == ("Person", None)
    assert kinds_of_ends("fits into") == (None, None)


def test_those_that_tell_of_a_kind_are_found_among_the_graphs_own():
    relations = {"urn:1": "works at", "urn:2": "based in", "urn:3": "fits into"}
    assert relations_of_kind("Organisation", relations).subject == ("urn:2",)
    assert relations_of_kind("Organisation", relations).object == ("urn:1",)


def test_most_votes_win_and_of_two_the_first_kind():
    assert most_frequent_kind(["Place", "Person", "Place"]) == "Place"
    assert most_frequent_kind(["Place", "Person"]) == "Person"
    assert most_frequent_kind([]) is None
