"""The code on the pages of the documentation does what the pages say."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from docs.tools.page import Page, written_pages
from tests.acceptance.page_run import PageRun, environment, output_pattern, own_engines, patient_up
from tests.acceptance.processes import WITH_SERVERS

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(WITH_SERVERS, reason="the pages show the embedded engines"),
]
RUN = [page for page in written_pages() if any(block.kind in ("run", "output") for block in page.blocks)]


@pytest.fixture(scope="module")
def pages_folder() -> Generator[Path]:
    """A folder that Postgres may enter under root."""
    folder = Path(tempfile.mkdtemp(prefix="orion-pages-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def common_up(pages_folder: Path) -> Generator[Any]:
    """An empty `up` that most pages share: what it said when it was ready."""
    with patient_up(pages_folder, {}) as running:
        yield running.ready()
        running.signal(signal.SIGTERM)
        assert running.end().code == 0


# Every command of a page is a program of its own that loads everything: minutes in all.
_QUICK = ("README.md",)


def _case(page: Page) -> ParameterSet:
    return pytest.param(page, id=page.name, marks=() if page.name.startswith(_QUICK) else pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("page", [_case(page) for page in RUN])
def test_the_code_of_a_page_does_what_the_page_says(
    page: Page, pages_folder: Path, request: pytest.FixtureRequest
) -> None:
    folder = pages_folder / page.name.replace("/", "-").removesuffix(".md")
    folder.mkdir(mode=0o711)
    if page.engines is None:
        PageRun(page, folder, environment(request.getfixturevalue("common_up"), folder, {})).everything()
        return
    with own_engines(page, folder) as (ready, settings):
        PageRun(page, folder, environment(ready, folder, settings)).everything()


def test_what_a_page_shows_of_an_output_is_compared_line_by_line() -> None:
    assert output_pattern("a … c\n…\nlast\n").fullmatch("a b c\none\ntwo\nlast\n")
    assert output_pattern("name    hits\n").fullmatch("name hits\n")
    assert not output_pattern("a\n").fullmatch("a\nb\n")
    assert not output_pattern("a\n…\nb\n").fullmatch("a\n")
