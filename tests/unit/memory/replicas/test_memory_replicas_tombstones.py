from __future__ import annotations

import math

import pytest

from orion_recall.memory.replicas import tombstones
from orion_recall.memory.replicas.tombstones import Tombstones


def test_one_is_in_force_while_the_copies_are_below_it():
    known = Tombstones()
    known.applied_position = lambda: 6
    known.add({1: 7, 2: 5})
    assert [known.hides(key, known.applied_position()) for key in (1, 2, 3)] == [True, False, False]
    assert known.in_force
    known.applied_position = lambda: 7
    assert not known.hides(1, known.applied_position())
    assert known.hides(1, 6), "a recall that began before still needs it"
    assert not known.in_force


def test_of_two_the_later_counts_in_whatever_order_they_come():
    known = Tombstones()
    known.add({1: 9})
    known.add({1: 4})
    assert known.hides(1, 8)


def test_a_worker_without_copies_needs_none():
    known = Tombstones()
    known.add({1: 9})
    assert known.applied_position() == math.inf
    assert not known.in_force
    assert not known.hides(1, known.applied_position())


def test_what_was_out_of_force_at_the_last_sweep_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tombstones, "_SWEEP_EVERY_S", 0.0)
    known = Tombstones()
    known.applied_position = lambda: 5
    known.add({1: 4, 2: 6})
    known.sweep()
    assert known.hides(1, 3), "recalls that began before may still run"
    known.sweep()
    assert not known.hides(1, 3)
    assert known.hides(2, 5)
