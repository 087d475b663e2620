"""What opens a breaker: only what a source did within its own fair time."""

from __future__ import annotations

from orion_recall.errors import QueryNotTaken, ScopeNotKept, SourceError
from orion_recall.sources.several_stores import Breaker


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(3):
        breaker.record("away", now)
    assert breaker.is_open
    return breaker


def test_being_late_for_a_caller_that_waits_for_less_is_neither_failure_nor_success() -> None:
    breaker = Breaker()
    breaker.record("away", 0.0)
    for _ in range(9):
        breaker.record_late("no answer within 20 ms", 0.0, is_excused=True)
    assert (breaker.failures, breaker.last_error) == (1, "away")
    breaker.record_late("no answer within 800 ms", 0.0, is_excused=False)
    assert (breaker.failures, breaker.last_error) == (2, "no answer within 800 ms")


def test_a_query_that_the_source_cannot_take_gives_its_turn_back() -> None:
    for error in (ScopeNotKept("no column for session_id"), QueryNotTaken("the server refuses the filter")):
        breaker = opened()
        assert breaker.lets_through(2.0)
        breaker.record_error(error, 2.1)
        assert breaker.failures == 3
        assert breaker.lets_through(2.2), "the next may show whether the source is back"
    breaker.record_error(SourceError("away"), 2.3)
    assert not breaker.lets_through(2.4)


def test_callers_that_wait_for_less_do_not_use_up_the_turns_of_the_others() -> None:
    breaker = opened()
    assert breaker.lets_through(2.0, is_short=True)
    assert not breaker.lets_through(2.1, is_short=True)
    assert breaker.lets_through(2.1), "a full turn is left"
    assert not breaker.lets_through(2.2)
    breaker.record(None, 2.3)
    assert breaker.lets_through(2.4) and breaker.lets_through(2.4, is_short=True)
