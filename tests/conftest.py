"""The order of the tests: what takes long begins first, so that no process is left with it at the end."""

from __future__ import annotations

import os

import pytest

# The processes of a parallel run are told the terminal's width, and tables would be squeezed into it.
os.environ.pop("COLUMNS", None)

_FOLDERS = ("acceptance", "integration", "unit")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folder by folder; within a folder it stays as it was, in files and by chance."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    _, folder, *_ = item.path.relative_to(item.config.rootpath).parts  # tests/acceptance/…
    return _FOLDERS.index(folder) if folder in _FOLDERS else len(_FOLDERS)
