from __future__ import annotations

import pytest

from tests.bench.costs import Clocked, Compared, Figure, Ratio, added, stage_figures, whole_figure
from tests.bench.cpu_clock import CONFIDENCE, FUSION, UNDERSTANDING

ASKED = [
    Clocked(embedding_ms=2.0, stages_ms={FUSION: 1.0, UNDERSTANDING: 0.5, CONFIDENCE: 0.5}),
    Clocked(embedding_ms=4.0, stages_ms={FUSION: 1.0, UNDERSTANDING: 1.0}),
    Clocked(embedding_ms=1.0, stages_ms={UNDERSTANDING: 0.5, CONFIDENCE: 0.0}),
]


def test_a_share_is_of_the_same_questions_embedding() -> None:
    figure = Figure.of("twice", [2.0, 40.0, 6.0], [2.0, 10.0, 3.0])

    assert (figure.median_ms, figure.median_share) == (6.0, 2.0)
    assert figure.p95_ms == pytest.approx(36.6)
    assert figure.p95_share == pytest.approx(3.8)


def test_stages_come_in_the_order_asked_for_under_their_names_without_those_nobody_needed() -> None:
    figures = stage_figures(ASKED, {UNDERSTANDING: "words", FUSION: FUSION, "graph arm": "graph"})

    assert [figure.name for figure in figures] == ["words", FUSION]
    assert [figure.median_share for figure in figures] == [0.25, 0.25]


def test_the_whole_is_the_sum_of_a_questions_stages() -> None:
    whole = whole_figure(ASKED, "all")

    assert (whole.median_ms, whole.median_share) == (2.0, 0.5)


def test_what_was_added_is_worked_out_question_by_question() -> None:
    compared = [
        Compared(embedding_ms=2.0, with_ms=6.0, without_ms=4.0),
        Compared(embedding_ms=4.0, with_ms=9.0, without_ms=3.0),
        Compared(embedding_ms=1.0, with_ms=2.0, without_ms=2.0),
    ]

    ratio, share, every = added(compared, ASKED)

    assert (ratio.median, ratio.target, ratio.reached) == (1.5, None, None)
    assert (share.median, share.reached) == (1.0, True)
    assert (every.median, every.reached) == (1.5, False)


def test_a_ratio_says_where_nine_in_ten_lie_and_whether_its_median_reaches_the_target() -> None:
    ratio = Ratio.of("one", [float(value) for value in range(101)], target=49.0)

    assert (ratio.p05, ratio.median, ratio.p95) == (5.0, 50.0, 95.0)
    assert ratio.reached is False
