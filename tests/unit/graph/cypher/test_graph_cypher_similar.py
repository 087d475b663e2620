from __future__ import annotations

from collections.abc import Sequence

import pytest

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.graph.cypher.execution import FirstAvailable, GraphEntities, IndexedEntities, likeness
from tests.stand_ins.graph import PEOPLE, TENANT, sample_graph


def test_names_are_alike_by_words_or_by_letters():
    assert likeness("Fjord Labs", "fjord-labs") == 1.0
    assert likeness("engineer", "Harbour Engineers") > 0.9
    assert likeness("Johanna Berg", "Johana Berg") > 0.6
    assert likeness("Ana", "Bergen") == 0.0
    assert likeness("", "") <= 1.0


async def test_the_graphs_own_names_are_compared():
    names = GraphEntities(sample_graph(PEOPLE))
    found = await names.similar_entities("engineers", TENANT, 5)
    assert set(found) == {"urn:orion:entity:harbour_engineers", "urn:orion:entity:software_engineering"}
    assert len(await names.similar_entities("engineers", TENANT, 1)) == 1
    assert await names.similar_entities("zzz", TENANT, 5) == []
    assert await names.similar_entities("engineers", "other", 5) == []


async def test_of_what_the_index_finds_only_what_is_near_the_best_or_near_in_meaning_is_kept():
    class Index:
        async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
            return [("Fjord Labs", 5.0), ("fjord labs", 4.0), ("Labs", 2.0), ("Fjord", 1.9)][:limit]

        async def entities_like(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
            return [("Fjord Labs", 1.0), ("Bay Workshop", 0.6), ("Weather", 0.2)][:limit]

    index = Index()
    found = await IndexedEntities(index, index).similar_entities("fjord labs", TENANT, 10)
    assert found == ["urn:orion:entity:fjord_labs", "urn:orion:entity:labs", "urn:orion:entity:bay_workshop"]
    assert await IndexedEntities(index, index).similar_entities("fjord labs", TENANT, 1) == found[:1]


@pytest.mark.parametrize("by_words", [[("Fjord Labs", 5.0)], []], ids=["found by words", "nothing by words"])
async def test_what_is_found_by_words_stays_when_meaning_cannot_tell(by_words: list[tuple[str, float]]):
    class Index:
        async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
            return by_words

        async def entities_like(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
            raise SourceError("the model is away")

    names = IndexedEntities(Index(), Index())
    if by_words:
        assert await names.similar_entities("fjord labs", TENANT, 10) == ["urn:orion:entity:fjord_labs"]
    else:
        with pytest.raises(SourceError, match="the model is away"):
            await names.similar_entities("fjord labs", TENANT, 10)


async def test_when_the_index_is_away_the_names_in_the_graph_answer_and_why_is_told():
    class Away:
        async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
            raise TransientSourceError("the index is away")

    told: list[SourceError] = []
    finder = FirstAvailable([Away(), GraphEntities(sample_graph(PEOPLE))], told=told.append)
    assert await finder.similar_entities("fjord", TENANT, 5) == ["urn:orion:entity:fjord_labs"]
    assert [str(error) for error in told] == ["the index is away"]
    with pytest.raises(SourceError, match="is away"):
        await FirstAvailable([Away()], told=told.append).similar_entities("fjord", TENANT, 5)
