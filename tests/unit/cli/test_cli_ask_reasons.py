"""Why `ask` has nothing to show, in words."""

from __future__ import annotations

import pytest

from orion_recall.cli.ask import nothing_of
from orion_recall.contracts import BundleStats, NoAnswerV1


@pytest.mark.parametrize(
    ("withheld", "said"),
    [
        (None, "nothing was found"),
        (
            NoAnswerV1(reason="it is a greeting and asks nothing", near_misses=0),
            "nothing was searched: it is a greeting and asks nothing",
        ),
        (
            NoAnswerV1(reason="the probability of an answer of 0.020 is low", near_misses=3),
            "nothing seems to answer this: 3 memories came near, but the probability of an answer of 0.020 is low",
        ),
    ],
)
def test_the_reason_is_told(withheld: NoAnswerV1 | None, said: str) -> None:
    stats = BundleStats(backend_counts={}, latency_ms=1, profile="reflect.v1", no_answer=withheld)
    assert nothing_of(stats) == said
