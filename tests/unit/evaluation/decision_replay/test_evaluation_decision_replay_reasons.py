"""Why the same query under the same profile has another answer: the first reason that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from orion_recall import __version__
from orion_recall.contracts import RecallQueryV1
from orion_recall.evaluation.decision_replay.logged import Answer, LoggedQuery
from orion_recall.evaluation.decision_replay.past_record import Moment
from orion_recall.evaluation.decision_replay.reasons import Circumstances, why_different
from orion_recall.models.embedder import Embedder

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HERE = {"version": __version__, "model": "m"}
AT_NINE = {"index": 9, "graph": 9}


@dataclass
class Named:
    """An embedder of which only the name is asked."""

    name: str = "m"


def answer(**scores: float) -> Answer:
    return Answer(ids=tuple(scores), outcome="ok", tokens=1, confidence=None, ms=1.0, scores=scores)


@pytest.mark.parametrize(
    ("build", "read_at", "changes", "control", "words"),
    [
        (HERE, AT_NINE, {"erased": ("b",)}, answer(a=0.9), "erased since"),
        (HERE | {"version": "0.1"}, AT_NINE, {}, answer(a=0.9), "answered by version 0.1"),
        (HERE | {"model": "old"}, AT_NINE, {}, answer(a=0.9), "answered with the model old, this is m"),
        (HERE, AT_NINE, {"as_of": "now"}, answer(a=0.9), "have changed since"),
        (HERE, AT_NINE, {"copies": {"index": 10, "graph": 9}}, answer(a=0.9), "the index is further here"),
        (HERE, {}, {}, answer(a=0.9), "does not hold which changes"),
        (HERE, {"index": 8, "graph": 9}, {"copies": {"index": 8, "graph": 9}}, answer(a=0.9), "under way"),
        (HERE, AT_NINE, {}, answer(b=0.5, a=0.5), "equal scores"),
        (HERE, AT_NINE, {}, answer(a=0.7, b=0.5), "unknown"),
        ({}, AT_NINE, {}, answer(a=0.5), "unknown"),
    ],
)
def test_the_first_reason_that_explains_it_is_given(
    build: Mapping[str, str], read_at: Mapping[str, int], changes: Mapping[str, Any], control: Answer, words: str
) -> None:
    logged = LoggedQuery(
        id="d",
        tenant="acme",
        profile="reflect.v1",
        profile_hash="h",
        query_class="factual",
        query=RecallQueryV1(fragment="Who?"),
        clock=NOON.timestamp(),
        began=NOON,
        read_at=read_at,
        build=build,
        answer=answer(a=0.5, b=0.5),
    )
    found = Circumstances(
        moment=Moment(position=9, at=NOON),
        copies=AT_NINE,
        erased=(),
        embedder=cast("Embedder", Named()),
        as_of="decision",
    )
    assert words in why_different(logged, control, replace(found, **changes))
