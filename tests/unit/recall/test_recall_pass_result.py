from __future__ import annotations

from orion_recall.recall.pass_result import Drop, Dropped


def test_what_is_noted_is_counted_and_can_be_named():
    dropped = Dropped()
    dropped.note("near_duplicate", 2, for_key=1)
    dropped.note("excluded", 3)
    dropped["rank_pool"] += 5
    assert dict(dropped) == {"near_duplicate": 1, "excluded": 1, "rank_pool": 5}
    assert dropped.each == {2: Drop("near_duplicate", 1), 3: Drop("excluded")}
