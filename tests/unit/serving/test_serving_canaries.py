from __future__ import annotations

import logging
from typing import Any

import pytest

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.errors import BusUnavailable
from orion_recall.profile import Profile
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse
from orion_recall.serving.canaries import Canaries
from orion_recall.serving.canary_trial import SharedTrial
from orion_recall.telemetry import LOG_WORKER
from orion_recall.values import Outcome


def loaded(name: str, **values: Any) -> LoadedProfile:
    required: dict[str, Any] = {
        "profile": name, "vector_top_k": 5, "rdf_top_k": 0, "max_per_source": 5, "max_total_items": 5,
        "render_budget_tokens": 100,
    }  # fmt: skip
    profile = Profile.model_validate(required | values)
    return LoadedProfile(profile=profile, content_hash=profile.content_hash)


def profiles(**canary: Any) -> dict[str, LoadedProfile]:
    values: dict[str, Any] = {"profile": "new.v1", "steps": (0.25, 0.75), "step_minutes": 1, "min_queries": 10}
    return {"old.v1": loaded("old.v1", canary=values | canary), "new.v1": loaded("new.v1")}


class Board:
    """What workers share."""

    def __init__(self) -> None:
        self.trials: dict[str, SharedTrial] = {}
        self.is_away = False

    async def read(self, trial_id: str) -> SharedTrial | None:
        if self.is_away:
            raise BusUnavailable("away")
        return self.trials.get(trial_id)

    async def write(self, trial_id: str, shared: SharedTrial) -> None:
        self.trials[trial_id] = shared


class Worker:
    """A worker's canaries, with its clock in reach."""

    def __init__(self, board: Board | None = None, given: dict[str, LoadedProfile] | None = None) -> None:
        self.now = 0.0
        self.in_use = ProfilesInUse(given or profiles())
        self.canaries = Canaries(self.in_use, board, now=lambda: self.now)

    def variant(
        self, session: str | None, corr_id: str = "c", user: str | None = None, tenant: str = "t"
    ) -> str | None:
        options = RecallOptionsV1(user=user) if user else None
        query = RecallQueryV1(fragment="Who?", session_id=session, options=options)
        found = self.canaries.chosen("old.v1", self.in_use.current, query, tenant=tenant, corr_id=corr_id)
        return found.variant if found else None

    def answer(self, count: int, **of_canary: Any) -> None:
        """Answers of sessions, with the outcome and latency that the canary has."""
        for n in range(count):
            query = RecallQueryV1(fragment="Who?", session_id=f"s-{n}")
            found = self.canaries.chosen("old.v1", self.in_use.current, query, tenant="t", corr_id="c")
            assert found is not None
            outcome: Outcome = of_canary.get("outcome", "ok") if found.variant == "canary" else "ok"
            self.canaries.record(found, outcome, 10.0)


def test_a_session_stays_with_one_profile_and_later_steps_only_add_sessions() -> None:
    worker = Worker()
    sessions = [f"s-{n}" for n in range(2000)]
    first = {one for one in sessions if worker.variant(one, corr_id="a") == "canary"}
    assert first == {one for one in sessions if worker.variant(one, corr_id="b") == "canary"}
    assert 0.2 < len(first) / 2000 < 0.3
    (trial,) = worker.canaries.trials
    trial.adopt(SharedTrial(step=1, began=0.0))
    second = {one for one in sessions if worker.variant(one) == "canary"}
    assert first < second
    assert 0.7 < len(second) / 2000 < 0.8


def test_a_user_stays_with_one_profile_whatever_the_session() -> None:
    worker = Worker()
    for user in (f"u-{n}" for n in range(50)):
        assert len({worker.variant(f"s-{n}", user=user) for n in range(20)}) == 1


def test_without_a_user_and_a_session_queries_are_drawn_one_by_one() -> None:
    worker = Worker()
    assert {worker.variant(None, corr_id=f"c-{n}") for n in range(50)} == {"canary", "control"}


def test_without_a_canary_nothing_is_chosen() -> None:
    worker = Worker(given={"old.v1": loaded("old.v1"), "new.v1": loaded("new.v1")})
    assert worker.variant("s") is None
    assert worker.canaries.trials == ()


async def test_one_that_is_taken_back_answers_nobody_is_logged_and_is_known_to_all_workers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    board = Board()
    worker, other = Worker(board), Worker(board)
    await worker.canaries.judge()
    await other.canaries.judge()
    worker.answer(200, outcome="empty")
    with caplog.at_level(logging.WARNING, LOG_WORKER):
        await worker.canaries.judge()
    said = [record.getMessage() for record in caplog.records if record.name == LOG_WORKER]
    assert said == ["the canary new.v1 of old.v1 was taken back: empty 1.000, control 0.000, gate empty 0.05"]
    await other.canaries.judge()
    later = Worker(board)
    await later.canaries.judge()
    for one in (worker, other, later):
        assert {one.variant(f"s-{n}") for n in range(200)} == {"control"}


async def test_a_step_is_begun_by_one_worker_for_all() -> None:
    board = Board()
    worker, other = Worker(board), Worker(board)
    await other.canaries.judge()
    await worker.canaries.judge()
    worker.answer(200)
    worker.now = 60.0
    await worker.canaries.judge()
    await other.canaries.judge()
    assert [one.canaries.trials[0].share for one in (worker, other)] == [0.75, 0.75]
    assert other.canaries.trials[0].shared.began == 60.0


async def test_while_the_bus_is_away_a_worker_goes_by_its_own_and_overwrites_nothing() -> None:
    board = Board()
    worker, other = Worker(board), Worker(board)
    worker.answer(200)
    worker.now = 60.0
    await worker.canaries.judge()
    board.is_away = True
    await other.canaries.judge()
    assert [one.step for one in board.trials.values()] == [1], "a worker that was started meanwhile"
    worker.answer(200, outcome="failed")
    await worker.canaries.judge()
    assert worker.canaries.trials[0].share == 0.0
    assert [one.taken_back for one in board.trials.values()] == [None]
    board.is_away = False
    await worker.canaries.judge()
    await other.canaries.judge()
    assert other.canaries.trials[0].shared.taken_back


async def test_an_edit_of_either_profile_begins_another_trial() -> None:
    worker = Worker()
    worker.answer(200, outcome="failed")
    await worker.canaries.judge()
    assert worker.canaries.trials[0].shared.taken_back
    worker.in_use.take(profiles() | {"new.v1": loaded("new.v1", max_total_items=4)})
    await worker.canaries.judge()
    (trial,) = worker.canaries.trials
    assert (trial.shared.taken_back, trial.share, trial.of_canary.queries) == (None, 0.25, 0)
