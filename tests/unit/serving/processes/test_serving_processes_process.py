"""A worker's process: what it says, how it is told to end, and that it does not outlive its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orion_recall.serving.processes import supervisor as processes
from orion_recall.serving.processes.plans import WorkerPlan
from orion_recall.serving.processes.supervisor import WorkerProcess, how_it_ended

# In the place of the program.
STAND_IN = """
import json, os, signal, sys, time
assert sys.argv[1:] == ["worker", "--json", "--one-of-several"], sys.argv
what = os.environ["STAND_IN"]
if what == "error":
    print(json.dumps({"error": {"type": "SettingsError", "message": "no such model"}}, indent=2))
    sys.exit(2)
if what == "dumb":
    print("not a word of JSON")
    sys.exit(1)
signal.signal(signal.SIGHUP, lambda *_: sys.exit(7))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
told = {"ready": True, "pid": os.getpid(), "leads": os.getsid(0) == os.getpid(), "of": os.environ["ORION_DATA_DIR"]}
print(json.dumps(told), flush=True)
while True:
    time.sleep(60)
"""

# A parent that starts one and says its process id.
PARENT = """
import asyncio, sys
from pathlib import Path
from orion_recall.serving.processes import supervisor as processes
from orion_recall.serving.processes.plans import WorkerPlan

async def main():
    processes.PROGRAM = "stand_in_worker"
    plan = WorkerPlan(number=1, data_dir=Path("/d"), environment={"ORION_DATA_DIR": "/d"})
    ready = await (await processes.WorkerProcess.start(plan)).ready()
    print(ready["pid"], flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stand_in_worker.py").write_text(STAND_IN)
    monkeypatch.setattr(processes, "PROGRAM", "stand_in_worker")
    known = [str(tmp_path), str(Path(processes.__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(known))


async def started(what: str) -> WorkerProcess:
    environment = {"STAND_IN": what, "ORION_DATA_DIR": "/d"}
    return await WorkerProcess.start(WorkerPlan(number=1, data_dir=Path("/d"), environment=environment))


async def test_it_says_when_it_is_ready_and_ends_when_it_is_told() -> None:
    one = await started("serve")
    assert await one.ready() == {"ready": True, "pid": one.pid, "leads": True, "of": "/d"}
    one.terminate()
    assert await one.wait() == 0
    one.terminate()  # of what has ended nobody hears it
    one.kill()


async def test_a_reload_and_a_kill_are_the_signals_that_they_are() -> None:
    one = await started("serve")
    await one.ready()
    one.reload()
    assert await one.wait() == 7
    one = await started("serve")
    await one.ready()
    one.kill()
    assert await one.wait() == -9


@pytest.mark.parametrize(
    ("what", "code", "error"), [("error", 2, "no such model"), ("dumb", 1, "not a word of JSON")]
)
async def test_of_one_that_does_not_start_it_is_known_why(what: str, code: int, error: str) -> None:
    one = await started(what)
    assert await one.ready() is None
    assert one.error == error
    assert await one.wait() == code


async def test_it_ends_with_a_parent_that_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "serve")
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(await asyncio.to_thread(parent.stdout.readline))
        parent.send_signal(signal.SIGKILL)
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        await asyncio.sleep(0.01)


def test_an_end_in_words() -> None:
    assert how_it_ended(-9) == "was ended by signal 9"
    assert how_it_ended(3) == "ended with code 3"
