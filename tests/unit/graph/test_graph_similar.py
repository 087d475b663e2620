from __future__ import annotations

from collections.abc import Sequence

from orion_recall.graph.similar import IndexedEntities, NamesInGraph, likeness
from tests.stand_ins.graph import PEOPLE, TENANT, sample_graph


def test_names_are_alike_by_words_or_by_letters():
    assert likeness("Fjord Labs", "fjord-labs") == 1.0
    assert likeness("engineer", "Harbour Engineers") > 0.9
    assert likeness("Johanna Berg", "Johana Berg") > 0.6
    assert likeness("Ana", "Bergen") == 0.0
    assert likeness("", "") <= 1.0


async def test_the_graphs_own_names_are_compared():
    names = NamesInGraph(sample_graph(PEOPLE))
    found = await names.similar_entities("engineers", TENANT, 5)
    assert set(found) == {"urn:orion:entity:harbour_engineers", "urn:orion:entity:software_engineering"}
    assert len(await names.similar_entities("engineers", TENANT, 1)) == 1
    assert await names.similar_entities("zzz", TENANT, 5) == []
    assert await names.similar_entities("engineers", "other", 5) == []


async def test_of_what_the_index_finds_only_what_is_near_the_best_is_kept():
    class Index:
        async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
            return [("Fjord Labs", 5.0), ("fjord labs", 4.0), ("Labs", 2.0), ("Fjord", 1.9)][:limit]

    found = await IndexedEntities(Index()).similar_entities("fjord labs", TENANT, 10)
    assert found == ["urn:orion:entity:fjord_labs", "urn:orion:entity:labs"]
