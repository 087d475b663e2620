from __future__ import annotations

import pytest

from orion_recall.graph.relation_words import SYMMETRIC, compatibility, fitting, folded, stem


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
    assert all(name == folded(name) or "-" in name for name in SYMMETRIC), sorted(SYMMETRIC)
