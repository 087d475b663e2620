from __future__ import annotations

from orion_recall.index.text_forms import LengthsOfTenants, with_lengths
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.keyword_weights import SHIPPED, KeywordWeights, MeanLengths
from orion_recall.values import Change, Neighbour
from tests.samples.source_samples import memory

CRANE = memory("crane", "harbour crane gearbox repaired", tenant="ours", speaker=None, title=None)
FOX = memory("fox", "fox fox", tenant="ours", speaker=None, title=None)
THEIRS = memory("theirs", "word " * 90, tenant="theirs", speaker=None, title=None)


def change(of: object, position: int = 1, **fields: object) -> Change:
    return Change(position=position, memory=of, **fields)  # pyright: ignore[reportArgumentType]


def test_a_mean_is_of_one_tenants_memories_whatever_others_have():
    lengths = LengthsOfTenants()
    beside = Neighbour(id="fox", text="fox fox", speaker=None)
    lengths.add([change(CRANE, following=beside), change(FOX)])
    assert lengths.means() == {"ours": MeanLengths(3.0, 4.0)}
    lengths.add([change(THEIRS)])
    assert lengths.means()["ours"] == MeanLengths(3.0, 4.0)


def test_documents_as_long_as_their_corpus_mean_weigh_one_a_term():
    weights = with_lengths(KeywordWeights(length=None), [change(CRANE)])
    sparse = SparseEncoder(weights)
    terms = sparse.encode_document(CRANE.text, weights.mean_of("ours", "text"))
    assert [round(value, 6) for value in terms.values] == [1.0, 1.0, 1.0, 1.0]
    assert with_lengths(SHIPPED, [change(CRANE)]) is SHIPPED
