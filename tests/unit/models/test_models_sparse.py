from __future__ import annotations

import sys

import pytest

from orion_recall.errors import ModelError
from orion_recall.models.sparse import SparseEncoder, SparseTerms, union


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("running", "runs"),
        ("The Meetings", "meeting"),
        ("ÉCOLE", "école"),
        ("ΕΛΛΆΔΑ", "ελλάδα"),
        ("ЖУРНАЛ", "журнал"),
    ],
)
def test_words_meet_across_case_and_inflection(sparse: SparseEncoder, one: str, other: str) -> None:
    assert sparse.encode_query(one).indices == sparse.encode_document(other).indices != ()


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Wir haben die Tomaten mit dem Kind gepflanzt.", "Welche Tomate ist von den Kindern?"),
        ("Opa, achtzig Kilo Äpfel von dem krummen Baum!", "Wie viel hat der Apfel auf dem Baum gekostet?"),
        ("Ayer compramos las manzanas en el mercado.", "¿Dónde hay una manzana para mi madre?"),
    ],
)
def test_other_languages_meet_across_inflection_too(sparse: SparseEncoder, said: str, asked: str) -> None:
    assert set(sparse.encode_document(said).indices) & set(sparse.encode_query(asked).indices)


def test_what_is_english_is_stemmed_once(sparse: SparseEncoder) -> None:
    """An index of English memories is the same as before there were other languages."""
    assert len(sparse.encode_document("She repaired the tractors of her neighbours").indices) == 3
    assert len(sparse.encode_query("Who repaired the tractors?").indices) == 2


def test_a_query_is_found_by_its_english_stems_whatever_it_is_taken_for(sparse: SparseEncoder) -> None:
    named = set(sparse.encode_document("Parzelle Apfelbaum Säge").indices)
    assert named <= set(sparse.encode_query("Wo ist die Säge und wo der Apfelbaum von Parzelle 17?").indices)


def test_small_words_of_another_language_are_not_searched_for(sparse: SparseEncoder) -> None:
    assert sparse.encode_query("wer hat das mit dem und der").indices == ()


def test_digits_are_kept_and_told_apart(sparse: SparseEncoder) -> None:
    assert len(sparse.encode_document("2023-05-07").indices) == 3
    assert sparse.encode_query("2023").indices != sparse.encode_query("2024").indices


def test_a_documents_weights_are_bm25s(sparse: SparseEncoder) -> None:
    text = "fox fox fox dog bear"
    length_part = 1.5 * (1 - 0.75 + 0.75 * 5 / 32)
    expected = {count: count * 2.5 / (count + length_part) for count in (1, 3)}

    terms = sparse.encode_document(text)
    weights = dict(zip(terms.indices, terms.values, strict=True))

    for word, count in (("fox", 3), ("dog", 1), ("bear", 1)):
        (index,) = sparse.encode_query(word).indices
        assert weights[index] == pytest.approx(expected[count], rel=1e-5)


def test_without_the_engine_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)

    with pytest.raises(ModelError, match=r"orion-recall\[embedded\]"):
        SparseEncoder()


def test_a_union_has_every_term_with_its_greatest_weight():
    one = SparseTerms(indices=(2, 5), values=(0.5, 1.0))
    other = SparseTerms(indices=(1, 5), values=(2.0, 0.25))
    assert union([one, other]) == union([other, one]) == SparseTerms(indices=(1, 2, 5), values=(2.0, 0.5, 1.0))
    assert union([one]) == one
    assert union([]) == SparseTerms(indices=(), values=())
