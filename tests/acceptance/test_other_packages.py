"""A package of somebody else adds a source, a score part, a style and an extractor, and nothing else is changed."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import site
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.program import Program, Running
from tests.stand_ins.opensearch import opensearch

pytestmark = [pytest.mark.slow, pytest.mark.acceptance]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests" / "samples" / "opensearch_package"
TOLD = "orion-opensearch 0.1.0"
DOCUMENTS: Mapping[str, Mapping[str, Any]] = {
    "1": {"tenant": "default", "text": "The harbour crane squeaks and wants grease.", "ts": 1795564800.0},
    "2": {"tenant": "default", "text": "Grease the crane every Monday.", "tags": ["runbook"]},
    "3": {"tenant": "another", "text": "The harbour crane of another port is sold.", "tags": []},
}
QUESTION = "What is wrong with the harbour crane?"
PROFILE = """
profile: {name}
vector_top_k: 5
rdf_top_k: 0
max_per_source: 5
max_total_items: 5
render_budget_tokens: 300
opensearch_top_k: {top_k}
fusion:
  method: min_max
  weights: {{opensearch: {weight}}}
ranking: {{fusion: 1.0, similarity: 0.0, recency: 0.0, runbook: {runbook}}}
"""
MEMORY = '{"id": "m1", "text": "The harbour crane stopped.", "occurred_at": "2026-11-20T09:00:00Z"}\n'


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of an environment which has the package, and all that this one has."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    (own,) = (folder / "lib").glob("python*/site-packages")
    there = "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    (own / "those_of_the_tests.pth").write_text(f"{ROOT}\n{there}")
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel_of(PACKAGE, folder)]
    subprocess.run(install, check=True)
    return python


def wheel_of(package: Path, folder: Path) -> Path:
    """The wheel of a package, as its build backend makes it, which needs an index to be fetched from."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    name = f"{project['name'].replace('-', '_')}-{project['version']}"
    points = "".join(
        f"[{group}]\n" + "".join(f"{one} = {leads}\n" for one, leads in each.items())
        for group, each in project["entry-points"].items()
    )
    modules = (path for (root,) in [project_packages(package)] for path in sorted((package / root).glob("*.py")))
    files = {path.relative_to(package).as_posix(): path.read_text() for path in modules}
    files[f"{name}.dist-info/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    files[f"{name}.dist-info/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{name}.dist-info/entry_points.txt"] = points
    record = "".join(f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items())
    files[f"{name}.dist-info/RECORD"] = f"{record}{name}.dist-info/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return folder / f"{name}-py3-none-any.whl"


def project_packages(package: Path) -> list[str]:
    """The import packages that the build backend puts into the wheel."""
    tool = tomllib.loads((package / "pyproject.toml").read_text())["tool"]
    return tool["hatch"]["build"]["targets"]["wheel"]["packages"]


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def url() -> Generator[str]:
    with opensearch(DOCUMENTS) as url:
        yield url


@pytest.fixture
def with_package(program: Program, interpreter: Path, url: str) -> Program:
    """The program in the environment with the package, and with profiles that use it."""
    profiles = program.folder / "profiles"
    profiles.mkdir()
    for name, top_k, weight, runbook in (
        ("plain.v1", 0, 0.5, 0.0),
        ("light.v1", 5, 0.1, 0.0),
        ("searched.v1", 5, 9.0, 0.0),
        ("runbooks.v1", 5, 9.0, 50.0),
    ):
        text = PROFILE.format(name=name, top_k=top_k, weight=weight, runbook=runbook)
        (profiles / f"{name}.yaml").write_text(text)
    return program.with_interpreter(interpreter).with_settings(
        OPENSEARCH_URL=url,
        ORION_PROFILES_DIR=str(profiles),
        ORION_DEFAULT_PROFILE="plain.v1",
        PYTHONPATH=os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    )


def test_profiles_have_its_keys_and_refuse_misspelt_ones(with_package: Program) -> None:
    folder = with_package.folder
    shown = with_package.run("profiles", "show", "searched.v1", "--json").json
    assert (shown["opensearch_top_k"], shown["fusion"]["weights"]["opensearch"]) == (5, 9.0)
    misspelt = (
        PROFILE.format(name="mine.v1", top_k=5, weight=2, runbook=0.5)
        .replace("opensearch_top_k", "opensaerch_top_k")
        .replace("{opensearch:", "{opensearhc:")
        .replace("runbook:", "runbok:")
    )
    (folder / "mine.v1.yaml").write_text(misspelt)
    checked = with_package.run("profiles", "check", str(folder / "mine.v1.yaml"))
    told = checked.out + checked.err
    assert checked.code == 1
    assert all(f"did you mean `{key}`?" in told for key in ("opensearch_top_k", "opensearch", "runbook")), told
    assert with_package.run("contracts", "write", str(folder / "contracts")).code == 0
    schema = (folder / "contracts" / "profile.schema.json").read_text()
    assert "Hits of the OpenSearch source that are taken first; 0 switches it off." in schema
    assert "Weight of the OpenSearch source's list (no unit)." in schema
    assert "Weight of 'the memory has the tag `runbook`', a relevance part (no unit)." in schema


def test_a_profile_that_does_not_use_it_keeps_its_hash(with_package: Program, program: Program) -> None:
    settings = {"ORION_PROFILES_DIR": str(ROOT / "profiles"), "ORION_DEFAULT_PROFILE": "reflect.v1"}
    there = with_package.with_settings(**settings).run("profiles", "show", "reflect.v1", "--json").json
    without = program.with_settings(**settings).run("profiles", "show", "reflect.v1", "--json").json
    assert there["hash"] == without["hash"]
    assert "opensearch_top_k" in there and "opensearch_top_k" not in without


def test_doctor_lists_it_and_says_what_is_wrong(with_package: Program) -> None:
    found = with_package.run("doctor", "--json").json
    (packages,) = [check for check in found["installation"] if check["name"] == "packages"]
    added = ("the source opensearch", "the score part runbook", "the renderer cited", "the extractor tickets")
    assert packages["found"] == "; ".join(f"{one} of {TOLD}" for one in added)
    (store,) = found["stores"]
    assert (store["store"], store["arms"], store["remarks"]) == ("opensearch", ["opensearch"], ["3 documents"])
    away = with_package.with_settings(OPENSEARCH_URL="").run("doctor", "--json")
    assert away.code == 1
    assert away.json["stores"][0]["problems"] == [
        f"the source opensearch of the package {TOLD} cannot be opened: set OPENSEARCH_URL to the index, as "
        "http://host:9200/notes"
    ]


def test_its_hits_are_fused_ranked_shown_explained_and_decided(with_package: Program) -> None:
    (with_package.folder / "memories.jsonl").write_text(MEMORY)
    with with_package.started("up", "--json") as running:
        running.ready()
        stored = with_package.run("import", str(with_package.folder / "memories.jsonl"))
        assert stored.code == 0, stored.err
        plain = asked(with_package, "plain.v1")
        assert [item["id"] for item in plain["items"]] == ["m1"]
        assert plain["stats"]["sources"]["opensearch"]["status"] == "off"

        bundle = asked(with_package, "searched.v1")
        first = bundle["items"][0]
        assert (first["id"], first["source"], first["source_ref"]) == ("docs:1", "opensearch", "opensearch")
        assert "- [2026-11-25 search docs:1] The harbour crane squeaks and wants grease." in bundle["rendered"]
        assert {"docs:1", "docs:2", "m1"} == {item["id"] for item in bundle["items"]}  # and not another tenant's
        assert bundle["stats"]["backend_counts"]["opensearch"] == 2

        # Their meaning counts beside the list, so the second of it loses where the list weighs more.
        light = {item["id"]: item for item in asked(with_package, "light.v1")["items"]}
        heavy = {item["id"]: item for item in bundle["items"]}
        assert light["docs:2"]["score_parts"]["fusion"] > heavy["docs:2"]["score_parts"]["fusion"] + 0.2

        moved = asked(with_package, "runbooks.v1")["items"][0]
        assert (moved["id"], moved["score_parts"]["runbook"]) == ("docs:2", 1.0)

        explained = " ".join(with_package.run("ask", QUESTION, "--profile", "runbooks.v1", "--explain").out.split())
        assert "docs:2 is first with 0.991: found 2nd in OpenSearch; most of its score is" in explained, explained
        assert "by being from a runbook" in explained and "opensearch 2" in explained, explained

        assert decided(with_package, running) == ["ok", "opensearch", "1.0"]
        stop(running)


def test_a_line_has_its_style_and_memories_what_its_extractor_finds(with_package: Program) -> None:
    cited = PROFILE.format(name="cited.v1", top_k=0, weight=0.5, runbook=0.0) + "render: {style: cited}\n"
    (with_package.folder / "profiles" / "cited.v1.yaml").write_text(cited)
    (with_package.folder / "memories.jsonl").write_text(MEMORY.replace("stopped", "stopped: see OPS-12"))
    own = with_package.with_settings(ORION_EXTRACTOR="tickets")
    with own.started("up", "--json") as running:
        running.ready()
        assert own.run("import", str(own.folder / "memories.jsonl")).code == 0
        assert "- <index> 2026-11-20 The harbour crane stopped" in asked(own, "cited.v1")["rendered"]

        def is_extracted() -> bool:
            shown = own.run("memory", "show", "m1", "--json").json
            return shown["extracted_by"] == "tickets" and "OPS-12" in shown["entities"]

        running.wait_until(is_extracted, "its extraction")
        again = own.run("memory", "extract", "--id", "m1", "--with", "tickets", "--json")
        assert (again.code, again.json["due"]) == (0, 1)
        unknown = own.run("memory", "extract", "--id", "m1", "--with", "tickts")
        assert unknown.code == 2 and "there are light, spacy, llm, tickets" in unknown.err
        stop(running)


def test_without_its_server_it_costs_its_own_hits_alone(with_package: Program) -> None:
    alone = with_package.with_settings(OPENSEARCH_URL="")
    (alone.folder / "memories.jsonl").write_text(MEMORY)
    with alone.started("up", "--json") as running:
        running.ready()
        assert alone.run("import", str(alone.folder / "memories.jsonl")).code == 0
        assert asked(alone, "plain.v1")["stats"]["outcome"] == "ok"
        bundle = asked(alone, "searched.v1")
        assert [item["id"] for item in bundle["items"]] == ["m1"]
        assert bundle["stats"]["outcome"] == "degraded"
        assert "`doctor` say why" in bundle["stats"]["sources"]["opensearch"]["error"]
        stop(running)


def asked(program: Program, profile: str) -> Mapping[str, Any]:
    """The bundle of the question under a profile."""
    reply = program.run("ask", QUESTION, "--profile", profile, "--json")
    assert reply.code == 0, reply.out + reply.err
    return reply.json["bundle"]


def decided(program: Program, running: Running) -> Sequence[str]:
    """The log of `runbooks.v1`: the status of the source, and the source and part of the first item."""
    query = (
        "SELECT sources #>> '{opensearch,status}', selected #>> '{0,source}', selected #>> '{0,parts,runbook}' "
        "FROM recall_decisions WHERE profile = 'runbooks.v1' LIMIT 1"
    )
    rows: list[Sequence[str]] = []

    def is_there() -> bool:
        told = program.run("decisions", "sql", query, "--json")
        assert told.code == 0, told.out + told.err
        rows[:] = told.json["rows"]
        return bool(rows)

    running.wait_until(is_there, "its decision")
    return rows[0]


def stop(running: Running) -> None:
    running.signal(signal.SIGTERM)
    ended = running.end()
    assert ended.code == 0, ended.err
