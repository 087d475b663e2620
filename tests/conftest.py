"""The order of the tests: what takes long begins first, so that no process is left with it at the end."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from orion_recall.engines.postgres import UNPRIVILEGED_ID
from orion_recall.engines.postgres_binaries import closed_folder
from tests.stand_ins import quick_start

# The processes of a parallel run are told the terminal's width, and tables would be squeezed into it.
os.environ.pop("COLUMNS", None)

# Root's databases lie outside temporary folders that their user cannot enter, and would be left behind there.
if os.geteuid() == 0 and closed_folder(Path(tempfile.gettempdir(), "x"), UNPRIVILEGED_ID, UNPRIVILEGED_ID):
    os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"

quick_start.install()

_FOLDERS = ("acceptance", "integration", "unit")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folder by folder; within a folder it stays as it was, in files and by chance."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    _, folder, *_ = item.path.relative_to(item.config.rootpath).parts  # tests/acceptance/…
    return _FOLDERS.index(folder) if folder in _FOLDERS else len(_FOLDERS)
