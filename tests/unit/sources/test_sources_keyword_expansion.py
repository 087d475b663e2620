from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.sources.vector_lexical import LexicalSource, MoreWords, interpolated, relevance
from orion_recall.values import MemoryView, MoreWordsWanted, Scope
from tests.samples.source_samples import key, request

ALIASES = MoreWordsWanted(aliases=True, feedback_documents=0, feedback_terms=1, feedback_weight=0.0)
FEEDBACK = MoreWordsWanted(aliases=False, feedback_documents=2, feedback_terms=3, feedback_weight=0.5)


class Shelf:
    """Names and texts as they are told, and what was searched for."""

    kind = "index"
    damage: str | None = None
    stalled: str | None = None

    def __init__(self, names: Sequence[tuple[str, ...]] = (), texts: Mapping[str, str] | None = None) -> None:
        self.names, self.texts = names, texts or {}
        self.searched: list[SparseTerms] = []

    async def names_sharing_words(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        return self.names[:limit]

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        found = {key(name): MemoryView(id=name, text=text, text_hash="") for name, text in self.texts.items()}
        return {one: found[one] for one in keys if one in found}

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        raise AssertionError

    async def search_sparse(self, terms: SparseTerms, scope: Scope, limit: int) -> list[list[tuple[int, float]]]:
        self.searched.append(terms)
        return [[(key(name), 3.0 - place) for place, name in enumerate(self.texts)], []]


def lexical(shelf: Shelf, sparse: SparseEncoder) -> LexicalSource:
    return LexicalSource(shelf, sparse, MoreWords(shelf, sparse))


async def test_the_other_names_of_what_is_named_in_full_are_searched_for(sparse: SparseEncoder) -> None:
    shelf = Shelf([("Fjord Laboratories", "Fjord Labs"), ("Labs of Umbra", "Umbra")])
    await lexical(shelf, sparse).search(request("what did Fjord Labs' crew mend", more_words=ALIASES))
    (terms,) = shelf.searched
    wanted = set(sparse.encode_query("what did Fjord Labs crew mend laboratories").indices)
    assert set(terms.indices) == wanted


async def test_the_words_of_the_first_found_join_the_second_search(sparse: SparseEncoder) -> None:
    shelf = Shelf(texts={"a": "gearbox gearbox crane", "b": "gearbox harbour", "c": "zeppelin"})
    await lexical(shelf, sparse).search(request("crane", more_words=FEEDBACK))
    first, second = shelf.searched
    assert first == sparse.encode_query("crane")
    (crane,), (gearbox,) = sparse.encode_query("crane").indices, sparse.encode_query("gearbox").indices
    weights = dict(zip(second.indices, second.values, strict=True))
    assert weights[crane] > 1.0
    assert 0.0 < weights[gearbox] < 0.5
    assert sum(second.values) == pytest.approx(1.5)
    assert not set(sparse.encode_query("zeppelin").indices) & set(weights), "of the first two only"


async def test_nothing_further_is_asked_where_nothing_is_wanted_or_found(sparse: SparseEncoder) -> None:
    shelf = Shelf(texts={"a": "crane"})
    await lexical(shelf, sparse).search(request("crane"))
    assert shelf.searched == [sparse.encode_query("crane")]
    empty = Shelf()
    await lexical(empty, sparse).search(request("crane", more_words=FEEDBACK))
    assert len(empty.searched) == 1


def test_a_relevance_model_counts_each_document_by_its_score() -> None:
    one = SparseTerms(indices=(1, 2), values=(1.0, 1.0))
    other = SparseTerms(indices=(2, 3), values=(3.0, 1.0))
    assert relevance([(one, 2.0), (other, 4.0)], 2) == {2: pytest.approx(4 / 5), 1: pytest.approx(1 / 5)}
    assert relevance([(one, 0.0)], 2) == {}
    assert relevance([], 5) == {}
    assert relevance([(SparseTerms(indices=(), values=()), 1.0)], 5) == {}


def test_the_models_terms_weigh_together_what_they_are_to_weigh() -> None:
    terms = SparseTerms(indices=(2, 5), values=(1.0, 1.0))
    mixed = interpolated(terms, {1: 0.25, 5: 0.75}, 0.5)
    assert mixed == SparseTerms(indices=(1, 2, 5), values=(0.25, 1.0, 1.75))
    assert interpolated(terms, {}, 0.5) == terms
