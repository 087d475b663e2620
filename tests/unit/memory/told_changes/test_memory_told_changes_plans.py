"""Plans that come true change nothing, whatever amounts of other things are told beside them."""

from __future__ import annotations

import pytest

from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.succession.nearness import UNKNOWN, Nearness
from tests.samples.successions import DAY, reading

NEAR = Nearness(cosine=0.5, rank=1, word_rank=1)
PLAN = (
    "Found a barn in Elverum, dry, with gate, 900 a month. Signed with Mrs. Dahl. We move the pottery on the 14th."
)


@pytest.mark.parametrize(
    ("old", "new", "succeeds"),
    [
        (
            PLAN,
            "The pottery is in Elverum now. Two vans, one broken jug. Berger kept my caution money, 1,200.",
            False,
        ),
        (PLAN, "The pottery is in Elverum now. It costs 1,100 a month.", True),
        (PLAN, "The pottery is in Hamar now. Berger kept my caution money, 1,200.", True),
        (
            "We will rent the barn for the pottery in Elverum, 900 a month.",
            "We are in Elverum with the pottery now. The kiln cost 4,000.",
            False,
        ),
    ],
)
@pytest.mark.parametrize("near", [UNKNOWN, NEAR])
def test_what_was_planned_and_is_so_now_is_no_change(old: str, new: str, succeeds: bool, near: Nearness) -> None:
    judged = judge(reading(new, at=DAY), reading(old), near)
    assert (judged is not None and judged.confidence >= SUCCEEDS) is succeeds
