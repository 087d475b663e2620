from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

from orion_recall.engines.embedded import (
    ADDRESSES_NAME,
    Addresses,
    process_birth,
    read_addresses,
    write_addresses,
)


def of_this_process() -> Addresses:
    return Addresses(
        owner_pid=os.getpid(),
        owner_birth=process_birth(os.getpid()) or "",
        redis_url="unix:///run/valkey.sock",
        postgres_dsn=None,
        pids={"valkey": 7},
    )


def test_what_a_running_instance_wrote_is_read_back(tmp_path: Path) -> None:
    write_addresses(tmp_path, of_this_process())
    assert read_addresses(tmp_path) == of_this_process()


def test_the_note_is_for_its_owner_only_and_leaves_no_work_file(tmp_path: Path) -> None:
    write_addresses(tmp_path, of_this_process())
    assert [path.name for path in tmp_path.iterdir()] == [ADDRESSES_NAME]
    assert stat.S_IMODE((tmp_path / ADDRESSES_NAME).stat().st_mode) == 0o600


def test_the_note_of_a_dead_process_is_not_believed(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    write_addresses(tmp_path, replace(of_this_process(), owner_pid=process.pid))
    assert read_addresses(tmp_path) is None


def test_a_process_that_reuses_the_pid_is_not_taken_for_the_owner(tmp_path: Path) -> None:
    write_addresses(tmp_path, replace(of_this_process(), owner_birth="1"))
    assert read_addresses(tmp_path) is None
