"""Limits of the layout: what grows beyond them asks for another design."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orion_recall

PACKAGE = Path(next(iter(orion_recall.__path__))).resolve()
TESTS = PACKAGE.parent / "tests" / "unit"
MODULES = sorted(PACKAGE.rglob("*.py"))

_MOST_LINES = 350
_MOST_FILES = 20


def test_no_module_is_longer_than_one_reads_in_one_go():
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > _MOST_LINES} == {}


def test_no_folder_holds_more_files_than_one_looks_through():
    folders = Counter(str(path.parent.relative_to(PACKAGE)) for path in MODULES)
    assert {name: count for name, count in folders.items() if count > _MOST_FILES} == {}


def test_folders_lie_three_deep_at_most():
    deep = [path for path in MODULES if len(path.relative_to(PACKAGE.parent).parents) > 4]
    assert deep == []


def test_what_integration_tests_share_ends_with_them():
    """On the event loop of unit tests it would log, start tasks and call what they replace, by chance."""
    files = [path for folder in ("acceptance", "integration") for path in (TESTS.parent / folder).glob("*.py")]
    assert [path.name for path in files if 'fixture(scope="session"' in path.read_text("utf-8")] == []


def test_a_unit_test_file_is_named_after_a_module_or_a_package():
    """tests/unit/a/b/test_a_b_c.py tests a/b/c.py, or the folder a/b as a whole."""
    for path in TESTS.rglob("test_*.py"):
        folder = path.parent.relative_to(TESTS)
        if folder.parts[:1] in (("bench",), ("checks",), ("docs",)) or folder == Path():
            continue
        assert (PACKAGE / folder).is_dir(), f"{path.relative_to(TESTS)} mirrors no package"
        assert path.stem.startswith("test_" + "_".join(folder.parts)), path.name
