from __future__ import annotations

from orion_recall.text.chatter import is_chatter
from tests.samples.chatter_lines import CHATTER, TELLING


def test_of_what_is_called_chatter_almost_everything_is():
    called = [line for line in (*CHATTER, *TELLING) if is_chatter(line)]
    wrong = [line for line in called if line in TELLING]
    assert len(wrong) <= 0.03 * len(called), wrong


def test_most_chatter_is_recognised():
    missed = [line for line in CHATTER if not is_chatter(line)]
    assert len(missed) <= 10, missed


def test_the_judged_lines_are_more_than_two_hundred():
    assert (len(CHATTER), len(TELLING), len({*CHATTER, *TELLING})) == (110, 110, 220)
