"""The trials of tests/chaos at small sizes: what is counted is as it must be. Their times say nothing here."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from tests.chaos import fuzz, leaks, overload, soak, steady
from tests.chaos.__main__ import main
from tests.chaos.canaries import Asked, world
from tests.chaos.fuzz import Tried
from tests.chaos.giants import CRAFTS
from tests.chaos.inputs import mutated, seeds
from tests.chaos.parsers import PARSERS, logged_errors
from tests.chaos.trial import Trial, as_json, at_least, at_most, show

SEED = 7


def kept(trial: Trial) -> None:
    """Every promise that is not of time was kept."""
    assert [promise for promise in trial.broken if not promise.is_timed] == [], trial.figures
    json.dumps(as_json([trial]))
    show([trial], Console(quiet=True))


@pytest.mark.slow
@pytest.mark.acceptance
async def test_no_query_and_no_store_is_lost_or_answered_twice_under_faults() -> None:
    faults = ("kill", "bus killed", "groups lost", "wrong clock")
    kept(await steady.run(queries=200, stores=20, per_s=20, seed=SEED, faults=faults))


@pytest.mark.slow
@pytest.mark.acceptance
async def test_nothing_is_lost_either_when_one_of_several_processes_fails_or_their_parent() -> None:
    faults = ("kill", "process killed", "pause")
    kept(await steady.run(queries=300, stores=20, per_s=10, seed=SEED, faults=faults, processes=2))


@pytest.mark.slow
@pytest.mark.acceptance
async def test_no_answer_names_what_is_not_in_its_scope() -> None:
    kept(await leaks.run(questions=300, tenants=5, in_flight=8, seed=SEED, users=2, sessions=2, memories=2))


@pytest.mark.slow
@pytest.mark.acceptance
async def test_generated_inputs_and_giants_end_in_errors_of_our_own() -> None:
    kept(await fuzz.run(inputs=2000, giants=len(CRAFTS), seed=SEED))


@pytest.mark.slow
@pytest.mark.acceptance
async def test_a_flood_leaves_no_query_unanswered() -> None:
    kept(await overload.run(seconds=3, memories=100))


@pytest.mark.slow
@pytest.mark.acceptance
async def test_a_short_soak_answers_everything_and_reads_every_size() -> None:
    trial = await soak.run(minutes=0.2, memories=100)
    (answered,) = [promise for promise in trial.promises if promise.what == "queries without a reply"]
    assert answered.is_kept
    names = {promise.what for promise in trial.promises}
    assert names >= {"memory MiB", "descriptors", "threads", "connections to Postgres", "table memories"}


@pytest.mark.parametrize("name", PARSERS)
def test_changed_inputs_end_in_errors_of_our_own(name: str) -> None:
    tried, rng = Tried(), random.Random(SEED)
    with logged_errors() as told:
        for data in (*seeds(name), *(mutated(seeds(name), rng) for _ in range(40))):
            tried.one(name, PARSERS[name], data)
    assert tried.faults == []
    assert told == []


def test_an_exception_that_is_not_our_own_is_a_fault() -> None:
    def broken(data: bytes) -> None:
        raise KeyError(data)

    tried = Tried()
    tried.one("broken", broken, b"x")
    assert "KeyError" in tried.faults[0]


def test_a_name_of_another_is_found_and_one_of_the_scope_or_the_question_is_not() -> None:
    told = world(tenants=2, users=2, sessions=1, memories=1, seed=SEED, now=0.0)
    ours, beside, theirs, _ = (memory["metadata"]["who"] for memory in told.memories)
    asked = Asked({"fragment": f"Who is {theirs}?"}, {"tenant": "tenant-0"})
    assert list(told.leaked(f"{ours.upper()} {beside} {theirs}", asked)) == []
    assert list(told.leaked(f"{ours} {beside}", Asked({}, {"tenant": "tenant-0", "user": "user-0"}))) == [beside]
    assert list(told.leaked(theirs, Asked({"fragment": theirs[:8]}, {"tenant": "tenant-0"}))) == [theirs]


def test_a_broken_promise_is_an_exit_code_and_one_of_time_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    promises = [at_most("lost", 0, 0), at_least("goodput", 0.5, 0.85, is_timed=True)]

    async def run(**_: object) -> Trial:
        return Trial(name="overload", size="small", promises=promises, figures={"load": 1.5})

    monkeypatch.setattr(overload, "run", run)
    file = tmp_path / "found.json"
    assert main(["overload", "--json", str(file)]) == 0
    assert main(["overload", "--timed"]) == 1
    promises[0] = at_most("lost", 1, 0)
    assert main(["overload"]) == 1
    assert "BROKEN" in capsys.readouterr().out
    assert json.loads(file.read_text())["trials"][0]["is_kept"] is False


@pytest.mark.slow
@pytest.mark.acceptance
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_trial_that_is_stopped_leaves_no_process_behind(number: signal.Signals) -> None:
    line = [sys.executable, "-m", "tests.chaos", "steady", "--queries", "100000"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "memories are stored" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.5)
        process.send_signal(number)
        process.stderr.read()
        assert process.wait(60) == 130
    left = [path for path in Path("/tmp").glob(f"orion-acceptance-{process.pid}-*") if path.exists()]
    assert left == []
