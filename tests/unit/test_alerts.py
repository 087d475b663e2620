"""The alert rules and the board of deploy/: what they read is there, what they say is explained, and rules ring."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from docs.tools.metrics import prometheus_names
from docs.tools.page import ROOT, read_page
from tests.stand_ins.monitoring import (
    RULE_TESTS,
    RULES,
    alerts,
    board,
    board_queries,
    labels_by,
    selectors,
)

RUNBOOKS = "docs/pages/how-to/runbooks.md"
# What Prometheus adds to each series of a worker.
ADDED = {"instance"}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Prometheus) is not installed"
)


def promtool(*arguments: str | Path) -> None:
    """Runs it; it must find nothing wrong."""
    found = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    page, rules = read_page(ROOT / RUNBOOKS), alerts()
    assert {rule["annotations"]["runbook_url"] for rule in rules} == {
        f"{RUNBOOKS}#{rule['alert'].lower()}" for rule in rules
    }
    assert page.anchors >= {rule["alert"].lower() for rule in rules}
    assert {one for one in page.anchors if one.startswith("orionrecall")} == {
        rule["alert"].lower() for rule in rules
    }


def test_every_alert_and_every_query_of_the_board_reads_metrics_and_labels_that_there_are() -> None:
    names = prometheus_names()
    queries = [(rule["alert"], rule["expr"]) for rule in alerts()]
    queries += [(title, target["expr"]) for title, target in board_queries(board())]
    for where, query in queries:
        read = selectors(query)
        assert read, where
        for one in read:
            assert one.metric in names, where
            assert one.labels <= names[one.metric] | ADDED, (where, one)
            assert (labels_by(query) or set()) <= names[one.metric] | ADDED, (where, one)


def test_every_alert_has_a_case_in_which_it_rings() -> None:
    cases = yaml.safe_load(RULE_TESTS.read_text("utf-8"))["tests"]
    ringing = [
        case["name"]
        for case in cases
        if any(f'alertname="{case["name"]}"' in str(one.get("exp_samples")) for one in case["promql_expr_test"])
    ]
    assert sorted(ringing) == sorted(rule["alert"] for rule in alerts())


@needs_promtool
def test_the_rules_are_taken_by_promtool_and_ring_when_they_should() -> None:
    promtool("check", "rules", RULES)
    promtool("test", "rules", RULE_TESTS)
