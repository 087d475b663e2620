"""The order of the tests: what takes long begins first, so that no process is left with it at the end."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from orion_recall.engines.postgres_folder import UNPRIVILEGED_ID, closed_folder
from tests.stand_ins import quick_start

# The processes of a parallel run are told the terminal's width, and tables would be squeezed into it.
os.environ.pop("COLUMNS", None)

# Servers and indexes write gigabytes in a run, and every page of it costs the system time on a disk. What a killed
# process has written is there on either. A machine that has the room to spare keeps it in memory.
_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 8 * 1024**3
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

# Root's databases lie outside temporary folders that their user cannot enter, and would be left behind there.
if os.geteuid() == 0 and closed_folder(Path(tempfile.gettempdir(), "x"), UNPRIVILEGED_ID):
    os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"

quick_start.install()

_ALL_SLOW = re.compile(r"^pytestmark = .*pytest\.mark\.slow\b", re.MULTILINE)
_LOGGERS = tuple(logging.getLogger(name) for name in ("orion_recall", "opentelemetry"))
_FOLDERS = ("acceptance", "integration", "unit")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected lives as long as the run: the garbage collector need not go through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of slow tests alone are not even read by `make test`: every process reads all others."""
    if config.getoption("markexpr") != "not slow" or not collection_path.match("test_*.py"):
        return None
    return _ALL_SLOW.search(collection_path.read_text("utf-8")) is not None or None


class _Folder(pytest.Package):
    """A folder of tests without an `__init__.py`: what has the scope of a package ends with the last test in it."""

    def setup(self) -> None:
        """Nothing is imported: there is no module of the folder."""


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Services that integration tests share are gone before unit tests run: they would have one event loop."""
    is_one = path.parent == Path(__file__).parent and path.name in _FOLDERS
    return _Folder.from_parent(parent, path=path) if is_one else None  # pyright: ignore[reportUnknownMemberType]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folder by folder; within a folder it stays as it was, in files and by chance."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    _, folder, *_ = item.path.relative_to(item.config.rootpath).parts  # tests/acceptance/…
    return _FOLDERS.index(folder) if folder in _FOLDERS else len(_FOLDERS)


@pytest.fixture(autouse=True)
def package_logger() -> Iterator[logging.Logger]:
    """The package's logger; it and OpenTelemetry's are put back as they were.

    A command that serves writes its log elsewhere, and a test after it in the same process would see none.
    """
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in _LOGGERS]
    yield _LOGGERS[0]
    for logger, (handlers, level, propagate) in zip(_LOGGERS, before, strict=True):
        logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate
