"""The map of the code in CONTRIBUTING.md is complete, and its import order is the one that is tested."""

from __future__ import annotations

import re
from pathlib import Path

import orion_recall
from docs.tools.page import ROOT, read_page
from tests.unit.test_imports import ROOMS

PACKAGE = Path(next(iter(orion_recall.__path__))).resolve()
GUIDE = read_page(ROOT / "CONTRIBUTING.md")
MAP = GUIDE.text.partition("\n## Map\n")[2].partition("\n## ")[0]


def test_every_package_and_every_module_at_the_top_is_in_the_map() -> None:
    rows = re.findall(r"^\| (`.+?) \| .+ \|$", MAP, re.MULTILINE)
    listed = {name.rstrip("/") for row in rows for name in re.findall(r"`([\w./]+)`", row)}
    packages = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*/__init__.py")}
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert (packages | modules) - listed == set()


def test_the_import_order_is_the_one_that_is_tested() -> None:
    lines = re.findall(r"^\d+\. (`.+`)$", MAP, re.MULTILINE)
    known = frozenset[str]().union(*ROOMS)
    assert [known & set(re.findall(r"`(\w+)`", line)) for line in lines] == list(ROOMS)
