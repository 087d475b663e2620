"""The alert rules and the board of deploy/: what they read is there, what they say is explained, and rules ring."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
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
    filled_in,
    labels_by,
    selectors,
)

RUNBOOKS = "docs/pages/how-to/runbooks.md"
# What Prometheus adds to each series of a worker.
ADDED = {"instance"}
# Grafana's names of units that the board may use: of another one it would show none.
UNITS = {"short", "s", "bytes", "reqps", "cps", "percentunit"}

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


def test_every_alert_says_what_it_is_how_bad_and_what_follows() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert {"summary", "description"} <= rule["annotations"].keys(), rule["alert"]
        assert "orion_recall_" in rule["expr"], rule["alert"]


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


def test_what_an_alert_or_a_legend_names_is_left_in_its_result() -> None:
    names = prometheus_names()
    told = [(rule["expr"], " ".join(rule["annotations"].values()), r"\$labels\.(\w+)") for rule in alerts()]
    told += [(one["expr"], one["legendFormat"], r"\{\{(\w+)\}\}") for _, one in board_queries(board())]
    for query, text, label in told:
        kept = labels_by(query)
        if kept is None:
            kept = frozenset[str]().union(*(names[one.metric] | ADDED for one in selectors(query)))
        assert set(re.findall(label, text)) <= kept, text


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


@needs_promtool
def test_the_queries_of_the_board_are_taken_by_promtool(folder: Path) -> None:
    rules = [
        {"record": f"board:query_{number}", "expr": filled_in(target["expr"])}
        for number, (_, target) in enumerate(board_queries(board()))
    ]
    assert len(rules) > 30
    written = folder / "board.yaml"
    written.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}), "utf-8")
    promtool("check", "rules", written)


def test_the_board_has_the_shape_that_grafana_imports() -> None:
    found = board()
    assert found["schemaVersion"] >= 36
    assert [one["name"] for one in found["templating"]["list"]] == ["datasource", "instance"]
    assert not {"__inputs", "id"} & found.keys(), "it is imported as it is, and gets its number there"
    counts = Counter(panel["id"] for panel in found["panels"])
    assert max(counts.values()) == 1
    titles = Counter(panel["title"] for panel in found["panels"])
    assert max(titles.values()) == 1
    for panel in found["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["type"] in ("stat", "timeseries"), panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"]), panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0, panel["title"]


def test_no_panel_of_the_board_lies_over_another() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in board()["panels"]:
        at = panel["gridPos"]
        assert 0 <= at["x"] < at["x"] + at["w"] <= 24, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_the_board_shows_what_the_page_says_to_watch() -> None:
    page = read_page(ROOT / "docs/pages/how-to/monitor.md").path.read_text("utf-8")
    watched = page.partition("## What to watch")[2].partition("\n## ")[0]
    told = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"`(orion_recall_\w+)", watched)}
    shown = {
        re.sub(r"_(bucket|sum|count)$", "", one.metric)
        for _, target in board_queries(board())
        for one in selectors(target["expr"])
    }
    assert told - shown == {"orion_recall_canary_taken_back"}, "its share is shown: 0 once it was taken back"
