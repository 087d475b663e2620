"""The reference pages say what the code says, no requirement is lost, every page is in the navigation."""

from __future__ import annotations

import ast
import re
import shutil
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs.tools.llms import ROOT, navigation, write
from docs.tools.reference import FOLDER, PAGES
from docs.tools.requirements import DOCUMENTS, FILE, STATES, Requirement, read_requirements

ROWS = read_requirements(FILE.read_text("utf-8"))
# The numbers that the specifications' rows have. Some were never given.
NUMBERED = (
    *(f"O-{number:02}" for number in range(1, 31)),
    *(f"H-{number:02}" for number in range(2, 34)),
    *(f"C-{number:02}" for number in range(1, 36)),
    *(f"G-{number:02}" for number in range(1, 38)),
    "G-07a",
    *(f"R-{number:02}" for number in range(2, 41) if number not in (14, 16, 23, 24, 39)),
)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_what_the_code_makes_of_it(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == PAGES[name](), "run `make docs`"


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page() -> None:
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    folder = ROOT / project["docs_dir"]
    listed = {page for _, _, page in navigation(project["nav"])}
    assert listed == {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}


def test_language_models_get_a_list_of_pages_and_each_page_as_text(tmp_path: Path) -> None:
    shutil.copyfile(ROOT / "zensical.toml", tmp_path / "zensical.toml")
    shutil.copytree(ROOT / "docs/pages", tmp_path / "docs/pages")
    (tmp_path / "build/docs").mkdir(parents=True)
    listing, whole = write(tmp_path)
    assert "- [Commands](reference/commands.md): Every command has `--help`" in listing.read_text("utf-8")
    assert "# Glossary" in whole.read_text("utf-8")
    assert (tmp_path / "build/docs/reference/commands.md").is_file()
    (tmp_path / "docs/pages/forgotten.md").write_text("# Forgotten\n", "utf-8")
    with pytest.raises(SystemExit, match=r"forgotten\.md"):
        write(tmp_path)


def test_every_row_of_the_specifications_is_there_once() -> None:
    ids = [row.id for row in ROWS]
    assert [one for one in NUMBERED if one not in ids] == []
    assert sorted({one for one in ids if ids.count(one) > 1}) == []
    assert [one for one in ids if one not in NUMBERED and not re.fullmatch(r"[OHCGR]\+\d+", one)] == []
    assert {one[0] for one in ids} == set(DOCUMENTS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_what_shows_a_requirement_is_there(row: Requirement) -> None:
    assert list(faults(row)) == []


def faults(row: Requirement) -> Iterator[str]:
    """What is wrong with a row, one sentence each."""
    if row.state not in STATES:
        yield f"{row.state} is no state: write one of {', '.join(STATES)}"
    if row.state != "yes" and not row.note:
        yield f"{row.state}: say why in a note"
    if row.state == "yes" and not row.shown:
        yield "nothing shows it: name a test or a command"
    yield from (f"{one}: it is not there" for one in row.shown if not is_there(one))


def is_there(shown: str) -> bool:
    """Whether the test, folder or command exists (commands of the program are looked up on all pages)."""
    path, _, name = shown.partition("::")
    if path.startswith("tests/"):
        return name in functions(path) if name else (ROOT / path).exists()
    words = shown.split()
    if words[:2] == ["python", "-m"]:
        return (ROOT / f"{words[2].replace('.', '/')}.py").is_file()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return words[0] == "orion-recall" or (words[0] == "make" and words[1] in targets)


@cache
def functions(path: str) -> frozenset[str]:
    """The names of a module's functions; none where there is no module."""
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
