from __future__ import annotations

import pytest

from orion_recall.graph.relation_words import compatibility, folded, kinds_of_ends


@pytest.mark.parametrize("name", ["WORKS_AT", "works at", "Works-at!", "`works  at`"])
def test_case_marks_and_underscores_make_no_other_relation(name: str):
    assert folded(name) == "works at"


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


def test_relations_tell_what_stands_at_their_ends():
    assert kinds_of_ends("Works at") == ("Person", "Organisation")
    assert kinds_of_ends("based in") == ("Organisation", "Place")
    assert kinds_of_ends("sister of") == ("Person", "Person")
    assert kinds_of_ends("loves") == ("Person", None)
    assert kinds_of_ends("fits into") == (None, None)
