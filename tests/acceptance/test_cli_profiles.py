"""`orion-recall profiles` and `contracts`, which need nothing running; and what the program says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.shipped import shipped_folder
from tests.acceptance.program import Program

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_profiles_are_listed_and_shown(program: Program) -> None:
    listed = program.run("profiles", "list", "--json")
    assert {"reflect.v1", "assist.light.v1", "deep.graph.v1"} <= {one["profile"] for one in listed.json["profiles"]}
    assert "reflect.v1 *" in program.run("profiles", "list").out
    shown = program.run("profiles", "show", "reflect.v1")
    assert shown.code == 0
    assert "vector_top_k: 12" in shown.out
    unknown = program.run("profiles", "show", "reflct.v1")
    assert unknown.code == 2
    assert "reflect.v1" in unknown.err


def test_strategies_and_shadows_are_told_and_checked(program: Program) -> None:
    file = program.folder / "mine.v1.yaml"
    text = program.run("profiles", "show", "reflect.v1").out.replace("profile: reflect.v1", "profile: mine.v1")
    file.write_text(
        text.replace("strategies:\n", "strategies:\n  temporal: {rank_pool: 96}\n")
        .replace("shadow:\n  profile: null", "shadow:\n  profile: deep.graph.v1")
        .replace("canary:\n  profile: null", "canary:\n  profile: deep.graph.v1")
    )
    checked = program.run("profiles", "check", str(file))
    assert "temporal" in checked.err.partition("strategies for ")[2].partition(";")[0]
    assert "; deep.graph.v1 in the shadow of 10%; deep.graph.v1 as a canary of 10%)" in checked.err
    shown = program.run("profiles", "show", str(file), "--json").json
    assert shown["strategies"]["temporal"] == {"rank_pool": 96}
    file.write_text(file.read_text().replace("rank_pool: 96", "rank_pool: 9600"))
    wrong = program.run("profiles", "check", str(file), "--json")
    (problem,) = wrong.json["problems"]
    assert (problem["key"], wrong.code) == ("strategies.temporal.rank_pool", 1)


def test_a_broken_profile_is_named_with_its_line(program: Program) -> None:
    file = program.folder / "mine.v1.yaml"
    file.write_text("profile: mine.v1\nvektor_top_k: 3\n")
    checked = program.run("profiles", "check", str(file))
    assert checked.code == 1
    assert f"{file}:2:1" in checked.out
    assert "vector_top_k" in checked.out
    as_json = program.run("profiles", "check", str(file), "--json")
    assert as_json.code == 1
    assert 2 in [problem["line"] for problem in as_json.json["problems"]]
    assert program.run("profiles", "check").code == 0


def test_a_profiles_folder_of_ones_own_is_used(program: Program) -> None:
    folder = program.folder / "profiles"
    folder.mkdir()
    shipped = shipped_folder("profiles") / "reflect.v1.yaml"
    (folder / "reflect.v1.yaml").write_text(shipped.read_text())
    own = program.with_settings(ORION_PROFILES_DIR=str(folder))
    assert [one["profile"] for one in own.run("profiles", "list", "--json").json["profiles"]] == ["reflect.v1"]


def test_the_contracts_are_written_as_files(program: Program) -> None:
    written = program.run("contracts", "write", str(program.folder / "contracts"), "--json")
    assert written.code == 0, written.err
    files = [Path(name) for name in written.json["files"]]
    assert files
    assert all(file.is_file() for file in files)


def test_the_program_says_its_version_and_helps(program: Program) -> None:
    assert program.from_scratch().run("--version").out.startswith("orion-recall 0.")
    assert "demo" in program.run("--help").out
    assert program.run().out == program.run("--help").out
    helped = program.run("ask", "--help")
    assert helped.code == 0
    assert "Example" in helped.out


def test_a_broken_setting_is_named(program: Program) -> None:
    broken = program.with_settings(ORION_CONCURRENCY="many").run("profiles", "list", "--json")
    assert broken.code == 2
    assert "ORION_CONCURRENCY" in json.loads(broken.out)["error"]["message"]
