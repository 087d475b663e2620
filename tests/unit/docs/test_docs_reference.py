"""The reference pages say what the code says, and every page is in the navigation."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from docs.tools.llms import ROOT, navigation, write
from docs.tools.reference import FOLDER, PAGES


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
