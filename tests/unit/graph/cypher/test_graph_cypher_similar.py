from __future__ import annotations

from collections.abc import Sequence

import pytest

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.graph.cypher.execution import FirstAvailable, GraphEntities
from tests.stand_ins.graph import PEOPLE, TENANT, sample_graph


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
