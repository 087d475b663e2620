"""`orion-recall demo`: what it shows, that it runs twice, and that it leaves nothing behind."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from tests.acceptance.program import Program, processes_on

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

SOURCES = {"vector", "lexical", "rdf", "sql_timeline"}


def test_the_demo_finds_something_in_every_source_and_reads_its_decisions_back_twice(program: Program) -> None:
    # Whatever the environment names, the demo keeps to its own engines.
    elsewhere = program.with_settings(
        ORION_REDIS_URL="redis://127.0.0.1:1", ORION_POSTGRES_DSN="postgresql://127.0.0.1:1/x", ORION_PREFIX="x:"
    )
    patient = replace(elsewhere, module="tests.stand_ins.patient_program")
    cold = patient.run("demo", "--data", str(program.data), "--json")
    assert cold.code == 0, cold.err
    shown = cold.json
    assert shown["imported"]["stored"] == shown["imported"]["read"] >= 60
    assert {recall["profile"] for recall in shown["recalls"]} == {"assist.light.v1", "reflect.v1", "deep.graph.v1"}
    for recall in shown["recalls"]:
        sources = recall["bundle"]["stats"]["sources"]
        asked = {"vector", "lexical"} if recall["profile"] == "assist.light.v1" else SOURCES | {"late"}
        assert {name for name, source in sources.items() if source["status"] == "ok"} == asked, recall["question"]
        assert recall["bundle"]["rendered"].startswith("- ")
    assert "FROM recall_decisions" in shown["sql"]
    assert len(shown["decisions"]) == len(shown["recalls"]) == 12
    assert {row["outcome"] for row in shown["decisions"]} == {"ok"}
    assert processes_on(program.folder) == []

    warm = program.run("demo", "--data", str(program.data))
    assert warm.code == 0, warm.err
    assert "unchanged, 0 in conflict, 0 rejected" in warm.err
    assert "\n- " in warm.out
    assert "SELECT" in warm.out
    assert warm.out.count("deep.graph.v1") > 4
    assert len(warm.out.splitlines()) < 60, "it fits a screen or two"
    told = [line for line in warm.out.splitlines() if not line.startswith("- ") and "--data" not in line]
    assert max(map(len, told)) <= 100
    assert processes_on(program.folder) == []


def test_a_demo_that_is_interrupted_stops_its_engines(program: Program) -> None:
    with program.started("demo", "--data", str(program.data)) as running:
        running.wait_until(lambda: "bus and Postgres run" in running.err, "its engines")
        running.signal(signal.SIGINT)
        ended = running.end()
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert ended.err.rstrip().endswith("error: interrupted")
    assert processes_on(program.folder) == []
