"""What deploy/THREATS.md and deploy/alerts.yaml point to is there."""

from __future__ import annotations

import re
from typing import Any

import yaml

from docs.tools.metrics import metrics_page
from docs.tools.page import ROOT, read_page

RUNBOOKS = "docs/pages/how-to/runbooks.md"


def alerts() -> list[dict[str, Any]]:
    groups: Any = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_defence_names_a_test_that_there_is() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "deploy/THREATS.md").read_text("utf-8")))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(named) > 20
    assert named - there == set()


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


def test_every_alert_reads_metrics_and_labels_that_there_are() -> None:
    rows = re.findall(r"^\| `[\w.]+` \| `(\w+)` \| \w+ \| ([^|]*) \|", metrics_page(), re.MULTILINE)
    labels = {name: set(re.findall(r"\w+", told)) for name, told in rows}
    assert len(labels) > 20
    for rule in alerts():
        for name, chosen in re.findall(r"(orion_recall_\w+)(?:\{([^}]*)\})?", rule["expr"]):
            assert name in labels, rule["alert"]
            assert set(re.findall(r"(\w+)=", chosen)) <= labels[name], rule["alert"]
