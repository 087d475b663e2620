"""Replays that are interrupted or killed, that meet positions of no record, and whose reports cannot be written."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from deploy_servers import run_program
from executor import until
from explained import CRANE, SHED, Asked
from test_decisions_explain import environment

from orion_recall.engines.replay_folders import delete_left
from tests.stand_ins.forked import Forked, forked

pytestmark = pytest.mark.slow


@pytest.fixture
def env(asked: Asked, tmp_path: Path) -> dict[str, str]:
    """A data folder and temporary files of the test's own."""
    folders = {
        "ORION_DATA_DIR": tmp_path / "data",
        "TMPDIR": tmp_path / "tmp",
        "XDG_CACHE_HOME": tmp_path / "cache",
    }
    for folder in folders.values():
        folder.mkdir()
    return environment(asked.service.settings) | {name: str(folder) for name, folder in folders.items()}


def folders(tmp_path: Path) -> list[Path]:
    return [one for place in ("data", "tmp") for one in (tmp_path / place).glob("orion-replay-*")]


async def begun(env: dict[str, str], tmp_path: Path, *arguments: str) -> Forked:
    """A command that has made its folder."""
    out, err = tmp_path / "out", tmp_path / "err"
    process = forked("orion_recall.cli.main", arguments, environment=env, out=out, err=err)

    async def has_folder() -> bool:
        assert process.poll() is None, err.read_text("utf-8")
        return any((one / "data").is_dir() for one in folders(tmp_path))

    await until(has_folder, "a folder of the replay")
    return process


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("replay", signal.SIGTERM),
        ("explain", signal.SIGINT),
        ("replay", signal.SIGINT),
        ("explain", signal.SIGTERM),
    ],
)
async def test_an_interrupted_replay_leaves_no_folder_however_often_it_is_interrupted(
    asked: Asked, env: dict[str, str], tmp_path: Path, command: str, first: signal.Signals
) -> None:
    await asked.stored(CRANE, SHED)
    decision = await asked.decided()
    arguments = {
        "replay": ("decisions", "replay", "--tenant", asked.tenant),
        "explain": ("decisions", "explain", decision.id, "--as-of", "decision"),
    }
    process = await begun(env, tmp_path, *arguments[command])
    process.send_signal(first)

    async def has_ended() -> bool:
        if folders(tmp_path):
            process.send_signal(signal.SIGINT)
        return process.poll() is not None

    await until(has_ended, "the end of the command")
    told = (tmp_path / "err").read_text("utf-8")
    assert (process.poll(), "Traceback" in told) == (130, False), told
    assert folders(tmp_path) == []


async def test_what_a_killed_replay_left_goes_with_the_next_one(
    asked: Asked, env: dict[str, str], tmp_path: Path
) -> None:
    await asked.stored(CRANE, SHED)
    await asked.decided()
    process = await begun(env, tmp_path, "decisions", "replay", "--tenant", asked.tenant)
    process.kill()
    process.wait(30)
    (left,) = folders(tmp_path)
    assert left.parent == tmp_path / "data"
    code, _, err = await run_program(env, "decisions", "replay", "--tenant", asked.tenant)
    assert (code, folders(tmp_path)) == (0, []), err
    assert delete_left(tmp_path / "data")[0] == 0


@pytest.mark.parametrize("position", ["1000000000000000000000000000000", "4000000000000"])
async def test_a_decision_of_positions_that_no_record_has_is_set_apart_with_its_reason(
    asked: Asked, env: dict[str, str], position: str
) -> None:
    await asked.stored(CRANE, SHED)
    strange, whole = await asked.decided(k=1), await asked.decided(k=1)
    await asked.pool.execute(
        """UPDATE recall_decisions SET read_at = ('{"index": ' || $2 || '}')::jsonb WHERE id::text = $1""",
        strange.id,
        position,
    )
    code, out, err = await run_program(env, "decisions", "replay", "--tenant", asked.tenant, "--json")
    told = json.loads(out)
    assert code == 0, err
    why = "the positions that its copies were at are none of this record"
    assert told["not_replayable"] == {why: 1}
    assert told["control_against_logged"]["means"]["identical"]["mean"] == 1, whole
    explained = ("decisions", "explain", strange.id, "--why-not", "shed")
    code, _, err = await run_program(env, *explained, "--as-of", "decision")
    assert (code, why in err) == (1, True), err
    code, out, err = await run_program(env, *explained)
    assert (code, "Traceback" in err, bool(out)) == (0, False, True), err


async def test_a_report_that_cannot_be_written_is_not_a_gate_that_failed(
    asked: Asked, env: dict[str, str], tmp_path: Path
) -> None:
    await asked.stored(CRANE, SHED)
    await asked.decided(k=1)
    gate = ("decisions", "replay", "--tenant", asked.tenant, "--fail-under", "identical=.5", "--min-queries", "1")
    err = tmp_path / "err"
    process = forked("orion_recall.cli.main", gate, environment=env, out=Path("/dev/full"), err=err)
    assert (await asyncio.to_thread(process.wait, 60), "Traceback" in err.read_text("utf-8")) == (2, False)
