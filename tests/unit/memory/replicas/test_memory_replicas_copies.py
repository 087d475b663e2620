from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from orion_recall.interfaces import Projection
from orion_recall.memory.replicas.tombstones import OwnCopies, copy_number


@dataclass
class Copy:
    position: int
    kind: str = "index"
    shared: bool = True
    copy: str | None = "qdrant"


def of(*copies: Copy) -> OwnCopies:
    return OwnCopies([cast("Projection", copy) for copy in copies])


THEIRS = copy_number("index", "qdrant")


def test_what_all_of_them_have_counts():
    assert of().applied_position() == math.inf
    assert of(Copy(7), Copy(5, "graph", shared=False, copy=None)).applied_position() == 5


def test_the_position_of_each_of_them_is_told_with_what_others_reached():
    copy = Copy(7)
    own = of(copy, Copy(5, "graph", shared=False, copy=None))
    assert own.applied_position() == 5
    assert own.positions() == {"index": 7, "graph": 5}
    own.reached({THEIRS: 9})
    assert own.positions() == {"index": 9, "graph": 5}
    assert of().positions() == {}


def test_a_shared_copy_is_where_it_was_seen_last_by_this_process_or_by_another():
    copy = Copy(5)
    own = of(copy)
    own.reached({THEIRS: 7, copy_number("graph", "qdrant"): 9})
    assert own.applied_position() == 7
    own.reached({THEIRS: 6})
    assert own.applied_position() == 7, "what was said before is heard later"
    copy.position = 6
    assert own.applied_position() == 7
    copy.position = 8
    assert own.applied_position() == 8, "nobody else has to say so"


def test_a_shared_copy_that_was_seen_going_back_is_where_it_was_seen():
    copy = Copy(8)
    own = of(copy)
    own.reached({THEIRS: 9})
    copy.position = 0
    assert own.applied_position() == 0
    copy.position = 3
    assert own.applied_position() == 3, "what was known before it lost something no longer counts"


def test_nobody_else_knows_better_of_a_copy_that_is_not_shared():
    own = of(Copy(5, shared=False))
    own.reached({THEIRS: 7})
    assert (own.applied_position(), own.are_shared) == (5, False)
