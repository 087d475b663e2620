"""Profiles of a running `up`, edited, broken and mended; SIGHUP; what `status` says of it."""

from __future__ import annotations

import shutil
import signal
from typing import Any

import pytest

from orion_recall.shipped import shipped_folder
from tests.acceptance.program import Program

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_edits_of_profiles_are_taken_or_refused_and_status_says_which(program: Program) -> None:
    folder = program.folder / "profiles"
    shutil.copytree(shipped_folder("profiles"), folder)
    file = folder / "reflect.v1.yaml"
    good = file.read_text("utf-8")
    edited = program.with_settings(ORION_PROFILES_DIR=str(folder))
    with edited.started("up", "--json") as running:
        running.ready()

        def workers() -> Any:
            return program.run("status", "--json").json["bus"]["workers"]

        def worker() -> Any:
            (found,) = workers()
            return found

        running.wait_until(workers, "the first look for messages, with which a worker is a consumer of its group")
        first = worker()
        assert "reflect.v1" in first["profiles"]
        file.write_text(good.replace("max_total_items: 12", "max_total_items: 11"), "utf-8")
        running.wait_until(lambda: worker()["profiles_version"] != first["profiles_version"], "the edit in use")
        file.write_text(good.replace("max_total_items: 12", "max_total_items: a dozen"), "utf-8")
        running.wait_until(lambda: worker()["profiles_error"], "a refusal")
        told = program.run("status")
        line = next(n for n, text in enumerate(good.splitlines(), 1) if text.startswith("max_total_items"))
        assert told.code == 1
        assert f"{file}:{line}:1: `max_total_items`" in told.out
        assert f"{file}:{line}:1" in running.err
        file.write_text(good, "utf-8")
        running.wait_until(lambda: worker()["profiles_version"] == first["profiles_version"], "the first version")
        assert program.run("status").code == 0
        running.signal(signal.SIGHUP)
        running.wait_until(lambda: "the files say the same" in running.err, "an answer to SIGHUP")
        assert program.run("ask", "is anybody there?").code == 0
        running.signal(signal.SIGTERM)
        ended = running.end()
    assert ended.code == 0, ended.err
