"""What a profile says reaches the sources."""

from __future__ import annotations

from typing import Any

import pytest

from orion_recall.contracts import RecallOptionsV1
from orion_recall.profile import Profile
from orion_recall.recall.search.requests import TimeLimits, requests_of
from orion_recall.recall.understand.question import understand
from orion_recall.values import Scope, SearchRequest
from tests.samples.recall_fakes import NOW, profile, query

LIMITS = TimeLimits(pass_s=1.0, full_s=1.0, own_s=1.0)


@pytest.mark.parametrize(
    ("graph", "field", "value"),
    [
        ({"hops": 2}, "hops", 2),
        ({"max_entities": 7}, "max_entities", 7),
        ({"max_statements": 11}, "max_statements", 11),
        ({"similar_entities": 4}, "similar_entities", 4),
        ({"arm": "activation"}, "graph_method", "activation"),
        ({"damping": 0.3}, "graph_damping", 0.3),
        ({"rounds": 7}, "graph_rounds", 7),
    ],
)
def test_what_a_profile_says_of_the_graph_is_asked_for(graph: dict[str, Any], field: str, value: object):
    def asked_for(one: Profile) -> SearchRequest:
        question = understand(query(), one, now=NOW, speakers=frozenset()).question
        return requests_of(question, Scope(tenant="default"), one, RecallOptionsV1(), LIMITS)["rdf"]

    assert getattr(asked_for(profile(graph=graph)), field) == value != getattr(asked_for(profile()), field)
