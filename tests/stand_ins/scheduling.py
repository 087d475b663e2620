"""The scheduler of a parallel test run: which process gets which file. `make test` loads it, with pytest-xdist."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs]
from xdist.scheduler import LoadFileScheduling  # pyright: ignore[reportMissingTypeStubs]

# Files whose tests ask one program that is up: to start it takes longer than most of them.
_ASKS_WHAT_IS_UP = ("ask", "import", "memory", "up")


class _Scheduling(LoadFileScheduling):
    """Whole files to one process; those that ask the program that is up to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "up" if Path(file).stem.removeprefix("test_cli_") in _ASKS_WHAT_IS_UP else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    return _Scheduling(config, log)
