"""The scheduler of a parallel test run: which process gets which file. `make test` loads it, with pytest-xdist."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs]
from xdist.scheduler import LoadFileScheduling  # pyright: ignore[reportMissingTypeStubs]

# Files that share what takes longer to start than most of their tests: a program that is up, a Qdrant stand-in.
_SHARED = {
    **dict.fromkeys(("test_cli_ask", "test_cli_import", "test_cli_memory", "test_cli_up"), "up"),
    **dict.fromkeys(
        (
            "test_index_qdrant",
            "test_index_record_identity",
            "test_sources_memory_indexes",
            "test_sources_passage_indexes",
            "test_sources_token_indexes",
        ),
        "qdrant",
    ),
}


class _Scheduling(LoadFileScheduling):
    """Whole files to one process; those that share a server or a program that is up to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _SHARED.get(Path(file).stem, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    return _Scheduling(config, log)
