"""One word for one idea: the glossary's list of words that are not used holds for names, help and descriptions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs.tools.reference import FOLDER, pages
from orion_recall.errors import OrionError

ROOT = Path(__file__).parents[3]
CODE = ROOT / "orion_recall"
GLOSSARY = (FOLDER / "glossary.md").read_text("utf-8")
TERMS, _, NOT_USED = GLOSSARY.partition("## Words that are not used")

# What crosses the bus, is a profile key, a column, a metric or a key of `--json` keeps its name.
WIRE_NAMES = frozenset(("arm", "arms", "fenced", "METRIC_FENCED", "recency_floor", "stood_in"))


def rows(text: str) -> list[str]:
    """The first cells of all table rows, without the heads and their rules."""
    cells = re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)
    return [cell for cell in cells if cell not in ("term", "word")]


def in_words(name: str) -> str:
    """`NotSure` and `not_sure` as "not sure"."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return " ".join(spaced.replace("_", " ").lower().split())


@cache
def avoided(*, in_names: bool = False) -> re.Pattern[str]:
    """Any of the words, in the plural too; in a name a hyphen is a space. A dead letter may be named."""
    words = [word.replace("-", " ") if in_names else word for word in rows(NOT_USED)]
    any_of = "|".join(re.escape(word) for word in words)
    return re.compile(rf"\b({any_of})s?\b(?! letter| stream)", re.IGNORECASE)


def definitions(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def names(tree: ast.Module) -> Iterator[str]:
    """Classes, functions, their parameters, fields and constants: what other modules may use."""
    for node in definitions(tree):
        yield node.name
        if isinstance(node, ast.ClassDef):
            fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
            yield from (field.id for field in fields if isinstance(field, ast.Name))
        else:
            yield from (one.arg for one in (*node.args.args, *node.args.kwonlyargs))
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def test_the_list_and_the_terms_are_read():
    assert {"source", "commit fencing", "confidence"} <= set(rows(TERMS))
    assert {"arm", "stand-in"} <= set(rows(NOT_USED))
    assert avoided().search("two arms of it") and avoided(in_names=True).search(in_words("StandIn"))
    assert not avoided().search("an army of farmers, and what stands in the dead letters")


@pytest.mark.parametrize("path", sorted(CODE.rglob("*.py")), ids=lambda path: str(path.relative_to(CODE)))
def test_names_and_first_lines_use_the_glossary(path: Path):
    tree = ast.parse(path.read_text("utf-8"))
    named = [
        *path.relative_to(CODE).with_suffix("").parts,
        *(name for name in names(tree) if name not in WIRE_NAMES),
    ]
    assert [name for name in named if avoided(in_names=True).search(in_words(name))] == []
    first_lines = [(ast.get_docstring(node) or "").partition("\n")[0] for node in (tree, *definitions(tree))]
    assert [line for line in first_lines if avoided().search(line)] == []


@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_pages_use_the_glossary(name: str):
    """Commands, settings, profile keys, messages, metrics and errors as they describe themselves."""
    text = re.sub(r"`[^`]*`", "", pages()[name])
    assert [line for line in text.splitlines() if avoided().search(line)] == []


def test_every_error_says_what_it_is():
    for error in (OrionError, *OrionError.__subclasses__()):
        assert error.__doc__, error


@pytest.mark.parametrize("term", rows(TERMS))
def test_a_term_is_used_outside_the_glossary(term: str):
    """A term that nothing uses is a word too many."""
    assert any(term.lower() in text for text in everything()), f"{term!r} is used nowhere"


@cache
def everything() -> tuple[str, ...]:
    pages = [path for path in FOLDER.parent.rglob("*.md") if path.name != "glossary.md"]
    code = CODE.rglob("*.py")
    return tuple(" ".join(in_words(path.read_text("utf-8")).split()) for path in (*pages, *code))
