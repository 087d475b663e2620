"""The pages are true: links lead somewhere, code is code, commands and options exist, examples are valid."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, cast

import pytest
import yaml
from jsonschema import Draft202012Validator

from docs.tools.command_lines import mistakes
from docs.tools.page import ROOT, TESTED_LANGUAGES, Block, Page, all_pages, read_page, written_pages
from orion_recall.external.mappings import Mappings
from orion_recall.profile import Profile

KINDS = {
    "sh": ("run", "file", "not run"),
    "python": ("run", "file", "not run"),
    "sql": ("run", "file", "not run"),
    "yaml": ("profile", "mapping", "file", "not run"),
    "json": ("message", "file", "not run"),
}
FOLDERS = "orion_recall|tests|docs|profiles|contracts|deploy"
PACKAGE = ROOT / "orion_recall"
PACKAGES = "|".join(sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
NEEDED_OF_A_PROFILE = {
    "profile": "mine.v1",
    **dict.fromkeys(("vector_top_k", "rdf_top_k", "max_per_source", "max_total_items"), 5),
    "render_budget_tokens": 256,
}
WRITTEN = written_pages()


def blocks(*kinds: str) -> list[Any]:
    """The blocks of all pages that are marked so, as parameters of a test."""
    return [
        pytest.param(block, id=f"{page.name}:{block.line}")
        for page in WRITTEN
        for block in page.blocks
        if block.kind in kinds
    ]


def test_every_block_says_how_it_is_tested() -> None:
    for page, block in [(one, block) for one in WRITTEN for block in one.blocks]:
        where = f"{page.name}:{block.line}"
        if block.language in TESTED_LANGUAGES:
            allowed = KINDS[block.language]
            assert block.kind in allowed, f"{where}: write one of {', '.join(allowed)} in a comment above it"
        else:
            assert block.kind in ("", "output", "file"), f"{where}: {block.mark} is not for {block.language}"
        if block.language == "python":
            compile(block.text, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_link_leads_to_a_file_and_an_anchor_that_is_there() -> None:
    assert [wrong for page in all_pages() for wrong in broken_links(page)] == []


def broken_links(page: Page) -> Iterator[str]:
    """What is wrong with the links of a page."""
    for link in page.links:
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        if not target.exists():
            yield f"{page.name}: {link}: there is no such file"
        elif anchor and anchor not in read_page(target).anchors:
            yield f"{page.name}: {link}: {target.name} has no such heading"


def test_every_path_that_a_page_names_is_there() -> None:
    named = [(page.name, path) for page in WRITTEN for path in paths_of(page)]
    assert len(named) > 20
    assert [(page, path) for page, path in named if not (ROOT / path).exists()] == []


def paths_of(page: Page) -> list[str]:
    """The files and folders of ours that a page names."""
    modules = re.findall(r"python -m (tests\.[\w.]+\w)", page.text)
    paths = [span for span in page.spans if re.fullmatch(rf"(?:{FOLDERS})/[\w./-]*", span)]
    folders = [name.replace(".", "/") for name in modules]
    runs = [f"{folder}/__main__.py" if (ROOT / folder).is_dir() else f"{folder}.py" for folder in folders]
    return [*paths, *runs]


def test_every_module_that_a_page_names_is_there() -> None:
    module = re.compile(rf"(?:{PACKAGES})/[\w/]*(?:\.py)?")
    named = [(page.name, span) for page in all_pages() for span in page.spans if module.fullmatch(span)]
    assert len(named) > 20
    assert [(page, path) for page, path in named if not ((PACKAGE / path).exists() or (ROOT / path).exists())] == []


def test_every_target_of_make_that_a_page_names_is_there() -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    target = re.compile(r"(?:^|`)make ([a-z][a-z-]*)", re.MULTILINE)
    assert [(page.name, name) for page in WRITTEN for name in target.findall(page.text) if name not in known] == []


@pytest.mark.parametrize("block", blocks("profile"))
def test_profiles_are_valid(block: Block) -> None:
    Profile.model_validate(NEEDED_OF_A_PROFILE | yaml.safe_load(block.text))


@pytest.mark.parametrize("block", blocks("mapping"))
def test_mappings_are_valid_by_their_schema_and_their_model(block: Block) -> None:
    mapping = yaml.safe_load(block.text)
    _check("mappings", mapping)
    Mappings.model_validate(mapping)


@pytest.mark.parametrize("block", blocks("message"))
def test_messages_are_valid(block: Block) -> None:
    message = json.loads(block.text)
    if "payload" in message:
        _check("envelope", message)
        message = message["payload"]
    _check(block.argument, message)


def _check(schema: str, value: Any) -> None:
    known = json.loads((ROOT / f"contracts/{schema}.schema.json").read_text("utf-8"))
    cast("Any", Draft202012Validator(known)).validate(value)


def test_the_commands_and_options_of_every_page_exist() -> None:
    assert [(page.name, wrong) for page in all_pages() for wrong in mistakes(page)] == []
