from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from orion_recall.profile.cascade import LAYER_NAMES, Cascade, Layers, NoAnswer


def test_every_layer_has_its_name_and_leads_to_others_only():
    assert set(LAYER_NAMES) == set(Layers.model_fields)
    for name in LAYER_NAMES:
        assert name not in Layers().named(name).then


def test_no_answer_is_off_unless_there_is_a_minimum():
    assert not NoAnswer().is_on
    assert NoAnswer(min_score=0.1).is_on
    assert NoAnswer(min_confidence=0.1).is_on


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"first": "sematic"}, "first"),
        ({"merge": {"confidence": 0.0}}, "merge.confidence"),
        ({"threshold": 1.1}, "threshold"),
        ({"over_fetch": 0}, "over_fetch"),
        ({"layers": {"graph": {"then": ["memory"]}}}, "layers.graph.then.0"),
        ({"layers": {"graph": {"sources": ["bm25"]}}}, "layers.graph.sources.0"),
        ({"layers": {"graph": {"kinds": "world"}}}, "layers.graph.kinds"),
        ({"layers": {"memory": {}}}, "layers.memory"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(changes: dict[str, Any], place: str):
    with pytest.raises(ValidationError) as caught:
        Cascade.model_validate(changes)
    assert [".".join(map(str, error["loc"])) for error in caught.value.errors()] == [place]
