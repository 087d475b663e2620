"""One word for one idea: the glossary's list of words that are not used holds for names, help and descriptions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from docs.tools.reference import FOLDER, PAGES
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


def test_names_and_first_lines_use_the_glossary():
    wrong: list[tuple[str, str]] = []
    for path in sorted(CODE.rglob("*.py")):
        place, tree = path.relative_to(CODE), ast.parse(path.read_text("utf-8"))
        named = (*place.with_suffix("").parts, *(name for name in names(tree) if name not in WIRE_NAMES))
        wrong += [(str(place), name) for name in named if avoided(in_names=True).search(in_words(name))]
        first_lines = [(ast.get_docstring(node) or "").partition("\n")[0] for node in (tree, *definitions(tree))]
        wrong += [(str(place), line) for line in first_lines if avoided().search(line)]
    assert wrong == []


def test_generated_pages_use_the_glossary():
    """Commands, settings, profile keys, messages, metrics and errors as they describe themselves."""
    texts = {name: re.sub(r"`[^`]*`", "", page()) for name, page in PAGES.items()}
    assert [
        (name, line) for name, text in texts.items() for line in text.splitlines() if avoided().search(line)
    ] == []


def test_every_error_says_what_it_is():
    for error in (OrionError, *OrionError.__subclasses__()):
        assert error.__doc__, error


def test_every_term_is_used_outside_the_glossary():
    """A term that nothing uses is a word too many."""
    used = everything()
    assert [term for term in rows(TERMS) if not any(term.lower() in text for text in used)] == []


def everything() -> tuple[str, ...]:
    pages = [path for path in FOLDER.parent.rglob("*.md") if path.name != "glossary.md"]
    code = CODE.rglob("*.py")
    return tuple(" ".join(in_words(path.read_text("utf-8")).split()) for path in (*pages, *code))
