from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.decisions.comparison import Answer
from orion_recall.errors import BusUnavailable
from orion_recall.profile import Profile
from orion_recall.profile.sections import Canary
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse
from orion_recall.serving.canaries import Canaries, CanaryTrial, SharedTrial, TrialsOnBus
from orion_recall.settings import Settings
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
            self.canaries.record(found, Answer(outcome=outcome, ms=10.0))


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


def trial(**settings: Any) -> CanaryTrial:
    values: dict[str, Any] = {"profile": "new.v1", "steps": (0.1, 0.5, 1.0), "step_minutes": 60, "min_queries": 10}
    return CanaryTrial(
        id="t",
        profile="old.v1",
        canary="new.v1",
        settings=Canary.model_validate(values | settings),
        shared=SharedTrial(step=0, began=1000.0),
    )


def answer(
    one: CanaryTrial, count: int, variant: str, outcome: Outcome = "ok", ms: float = 10.0, *, unsure: bool = False
) -> None:
    for _ in range(count):
        (one.of_canary if variant == "canary" else one.of_control).add(
            Answer(outcome=outcome, ms=ms, unsure=unsure)
        )


def test_nothing_is_judged_before_both_have_enough_answers() -> None:
    one = trial()
    answer(one, 9, "canary", "failed")
    answer(one, 50, "control")
    assert one.judge(1e9) is None
    answer(one, 1, "canary", "failed")
    assert one.judge(1e9) == "taken back"


@pytest.mark.parametrize(
    ("outcome", "ms", "why"),
    [
        ("degraded", 10.0, "degraded or failed 0.100, control 0.000, gate errors 0.02"),
        ("failed", 10.0, "degraded or failed 0.100, control 0.000, gate errors 0.02"),
        ("empty", 10.0, "empty 0.100, control 0.000, gate empty 0.05"),
        ("ok", 16.0, "p95 16.0 ms, control 10.0 ms, gate latency_ratio 1.5"),
    ],
)
def test_each_gate_takes_it_back_and_says_why(outcome: Outcome, ms: float, why: str) -> None:
    one = trial()
    answer(one, 40, "control")
    answer(one, 18, "canary")
    answer(one, 2, "canary", outcome, ms)
    assert one.judge(1001.0) == "taken back"
    assert (one.shared.taken_back, one.share) == (why, 0.0)
    assert one.judge(1e9) is None, "it stays taken back"


def test_one_that_is_unsure_more_often_is_taken_back() -> None:
    one = trial()
    answer(one, 40, "control")
    answer(one, 18, "canary")
    answer(one, 2, "canary", unsure=True)
    assert one.judge(1001.0) == "taken back"
    assert one.shared.taken_back == "unsure 0.100, control 0.000, gate unsure 0.05"


def test_a_canary_as_good_as_the_control_goes_from_step_to_step() -> None:
    one = trial()
    answer(one, 100, "control", "empty")
    answer(one, 20, "canary", "empty")
    assert one.judge(1000.0 + 3599) is None, "the step is not over"
    assert one.judge(1000.0 + 3600) == "next step"
    assert (one.share, one.of_canary.queries, one.of_control.queries) == (0.5, 0, 0)
    answer(one, 20, "canary")
    assert one.judge(1e5) == "next step", "the control's figures are those of the step before"
    assert one.share == 1.0
    answer(one, 20, "canary")
    assert one.judge(1e9) is None, "there is no further step"


def test_the_last_step_is_judged_by_the_control_of_the_step_before() -> None:
    one = trial(steps=(0.5, 1.0))
    answer(one, 20, "control")
    answer(one, 20, "canary")
    assert one.judge(1e5) == "next step"
    answer(one, 20, "canary", "degraded")
    assert one.judge(1e5) == "taken back"


def test_a_query_that_was_not_recalled_says_nothing_of_a_profile() -> None:
    one = trial()
    answer(one, 20, "canary", "expired")
    answer(one, 20, "canary", "refused")
    assert one.of_canary.queries == 0


def test_a_step_that_another_worker_began_begins_the_figures_anew() -> None:
    one = trial()
    answer(one, 20, "canary")
    one.adopt(SharedTrial(step=0, began=900.0))
    assert (one.shared.began, one.of_canary.queries) == (900.0, 20)
    one.adopt(SharedTrial(step=1, began=2000.0))
    assert (one.share, one.of_canary.queries) == (0.5, 0)
    one.adopt(SharedTrial(step=1, began=2000.0, taken_back="worse"))
    assert one.share == 0.0


class Redis:
    """Answers with the fields, or raises."""

    def __init__(self, fields: dict[bytes, bytes] | None = None) -> None:
        self._fields = fields

    async def hgetall(self, _key: str) -> dict[bytes, bytes]:
        if self._fields is None:
            raise RedisConnectionError("away")
        return self._fields

    def pipeline(self, *, transaction: bool) -> Any:
        raise RedisConnectionError("away")


def on_bus(fields: dict[bytes, bytes] | None) -> TrialsOnBus:
    return TrialsOnBus(cast("Any", Redis(fields)), Settings())


async def test_a_trial_is_read_and_none_is_none() -> None:
    assert await on_bus({}).read("t") is None
    fields = {b"step": b"1", b"began": b"7.5", b"taken_back": b"worse"}
    assert await on_bus(fields).read("t") == SharedTrial(step=1, began=7.5, taken_back="worse")


@pytest.mark.parametrize("fields", [None, {b"step": b"one", b"began": b"0"}, {b"step": b"1"}])
async def test_one_that_cannot_be_read_says_so(fields: dict[bytes, bytes] | None) -> None:
    with pytest.raises(BusUnavailable):
        await on_bus(fields).read("t")


async def test_what_cannot_be_written_is_left(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        await on_bus({}).write("t", SharedTrial(step=0, began=0.0))
    assert "the canary trial t is not written: away" in caplog.text
