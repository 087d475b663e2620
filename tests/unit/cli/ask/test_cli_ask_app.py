"""Why `ask` has nothing to show, in words."""

from __future__ import annotations

import pytest

from orion_recall.cli.ask.app import nothing_of
from orion_recall.contracts import BundleStats, NoAnswerV1, SourceStats


@pytest.mark.parametrize(
    ("withheld", "said"),
    [
        (None, "nothing was found"),
        (
            NoAnswerV1(reason="greeting", near_misses=0),
            "nothing was searched: it is a greeting and asks nothing",
        ),
        (
            NoAnswerV1(reason="below_min_probability", value=0.02, minimum=0.12, near_misses=3),
            "nothing seems to answer this: 3 memories were looked at, but the probability of an answer, "
            "0.020, is under the minimum of 0.12",
        ),
    ],
)
def test_the_reason_is_told(withheld: NoAnswerV1 | None, said: str) -> None:
    stats = BundleStats(backend_counts={}, latency_ms=1, profile="reflect.v1", no_answer=withheld)
    assert nothing_of(stats) == said
    if withheld is not None and withheld.near_misses:
        shown = stats.model_copy(update={"dropped": {"no_answer": 3}})
        chosen = said.replace("were looked at", "would have been handed over")
        assert nothing_of(shown) == f"{chosen} (--any-answer shows what was found)"


def test_an_empty_answer_says_what_was_left_out_and_which_source_was_silent() -> None:
    silent = SourceStats(status="late", count=0, ms=800.0)
    stats = BundleStats(
        backend_counts={},
        latency_ms=1,
        profile="p",
        dropped={"other_time": 3, "excluded": 1},
        sources={"vector": silent},
    )
    assert nothing_of(stats) == (
        "nothing was found that may be shown; left out: 3 other time, 1 excluded; no answer from vector"
    )
