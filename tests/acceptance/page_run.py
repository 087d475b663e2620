"""Runs the code of a page of the documentation, block by block, in a folder and beside a running `up`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docs.tools.page import Block, Page
from orion_recall.shipped import shipped_folder
from tests.acceptance.program import Program, Running

_LONGEST_S = 120


@dataclass(slots=True)
class PageRun:
    """One page on its way: its folder, its environment, and what its last block printed."""

    page: Page
    folder: Path
    environment: Mapping[str, str]
    out: str = ""
    interpreter: subprocess.Popen[str] | None = field(default=None, repr=False)

    def everything(self) -> None:
        """Run all blocks. AssertionError with the page, the line and what was printed where one goes wrong."""
        steps: dict[str, Callable[[Block], None]] = {"run": self._run, "output": self._compare, "file": self._write}
        try:
            for block in self.page.blocks:
                if block.kind in steps:
                    steps[block.kind](block)
        finally:
            self._close()

    def _run(self, block: Block) -> None:
        run = {"sh": self._shell, "python": self._python, "sql": self._sql}[block.language]
        run(block)

    def _shell(self, block: Block) -> None:
        expected = int(block.argument.partition("exit=")[2] or 0)
        self._finish(block, ["bash", "-euo", "pipefail", "-c", block.text], expected)

    def _sql(self, block: Block) -> None:
        self._finish(block, ["orion-recall", "decisions", "sql", block.text], 0)

    def _finish(self, block: Block, line: list[str], expected: int) -> None:
        done = subprocess.run(
            line,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
        self.out = done.stdout + done.stderr
        assert done.returncode == expected, f"{self._place(block)}: exit code {done.returncode}\n{self.out}"

    def _python(self, block: Block) -> None:
        if self.interpreter is None:
            self.interpreter = subprocess.Popen(
                [sys.executable, "-P", Path(__file__).with_name("page_interpreter.py")],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self.interpreter.stdin is not None
        assert self.interpreter.stdout is not None
        self.interpreter.stdin.write(json.dumps({"code": block.text, "name": self._place(block)}) + "\n")
        self.interpreter.stdin.flush()
        answer: dict[str, Any] = json.loads(self.interpreter.stdout.readline())
        self.out = answer["out"]
        assert not answer["failed"], f"{self._place(block)}\n{self.out}"

    def _write(self, block: Block) -> None:
        write_file(block, self.folder)

    def _compare(self, block: Block) -> None:
        told = f"{self._place(block)}: the page shows\n{block.text}\nprinted was\n{self.out}"
        assert output_pattern(block.text).fullmatch(_plain(self.out)), told

    def _place(self, block: Block) -> str:
        return f"{self.page.name}:{block.line}"

    def _close(self) -> None:
        if self.interpreter is not None:
            self.interpreter.kill()
            self.interpreter.communicate()


def write_file(block: Block, folder: Path) -> None:
    """Write a block that is marked `file NAME` into the folder."""
    path = folder / block.argument
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, "utf-8")


def output_pattern(shown: str) -> re.Pattern[str]:
    """What a page shows of an output as a pattern: `…` is any text of a line, alone on a line any lines."""
    pattern = ""
    for line in _plain(shown).splitlines():
        pattern += r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
    return re.compile(pattern)


def environment(ready: Mapping[str, Any], folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """What the blocks of a page find in their environment; nothing of the caller's settings is in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORION_", "XDG_"))}
    programs = Path(sys.executable).parent
    return {
        **kept,
        **settings,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ORION_DATA_DIR": ready["data_dir"],
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "XDG_STATE_HOME": str(folder / ".state"),
        "COLUMNS": "120",
        "BUS_URL": ready["bus_url"],
        "POSTGRES_DSN": ready["postgres_dsn"],
    }


def patient_up(folder: Path, settings: Mapping[str, str]) -> AbstractContextManager[Running]:
    """An `up` of which no source is late on a busy machine: it would be missing from what a page shows."""
    patient = {"ORION_DEADLINE_MS": "60000", "ORION_ACKNOWLEDGE_MS": "30000"}
    program = Program(folder, {**patient, **settings}, module="tests.stand_ins.patient_program")
    return program.started("up", "--json")


@contextmanager
def own_engines(page: Page, folder: Path) -> Generator[tuple[Any, dict[str, str]]]:
    """An `up` with the settings that the page names: what it said when it was ready, and the settings."""
    folder.mkdir(exist_ok=True)
    files = {block.argument: block for block in page.blocks if block.kind == "file"}
    settings = dict(page.engines or {})
    for name, value in settings.items():
        if value in files:
            write_file(files[value], folder)
            settings[name] = str(folder / value)
        elif name == "ORION_PROFILES_DIR":
            settings[name] = str(shutil.copytree(shipped_folder("profiles"), folder / value))
    with patient_up(folder, settings) as running:
        yield running.ready(), settings
        running.signal(signal.SIGTERM)
        assert running.end().code == 0


def _plain(text: str) -> str:
    """The lines with single spaces, without empty ones at the ends."""
    lines = [" ".join(line.split()) for line in text.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in lines)
