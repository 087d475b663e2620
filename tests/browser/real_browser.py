"""The library of the browser, which only the extra `browser` brings: types are checked without it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))


def library(name: str) -> Any:
    """A library of the extra; without it the tests are skipped."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        pytest.skip(f"{name} is not installed: make test-browser", allow_module_level=True)


def violations(page: Any) -> Sequence[Mapping[str, Any]]:
    """What axe finds wrong with the accessibility of the page: the rule and the places."""
    found: Any = library("axe_playwright_python.sync_playwright").Axe().run(page)
    return [
        {"rule": one["id"], "impact": one["impact"], "where": [node["html"][:160] for node in one["nodes"]][:4]}
        for one in found.response["violations"]
    ]
