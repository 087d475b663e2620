"""The alert rules and the board of deploy/, as they are, and the PromQL in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from docs.tools.page import ROOT

RULES = ROOT / "deploy/alerts.yaml"
RULE_TESTS = ROOT / "deploy/alerts.test.yaml"
BOARD = ROOT / "deploy/grafana/orion-recall.json"

# A selector of one of our metrics: its name, and what is chosen of it.
_SELECTOR = re.compile(r"\b(orion_recall_\w+)(?:\{([^}]*)\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")
_VARIABLES = {"$__rate_interval": "5m", "$instance": ".*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """One metric in a query, and the labels that it is chosen by."""

    metric: str
    labels: frozenset[str]


def alerts() -> list[dict[str, Any]]:
    groups: Any = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def board() -> dict[str, Any]:
    return json.loads(BOARD.read_text("utf-8"))


def board_queries(of: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every query of a board with the title of its panel."""
    for panel in of["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target


def selectors(query: str) -> list[Selector]:
    return [
        Selector(metric=name, labels=frozenset(re.findall(r"(\w+)\s*[=!]", chosen or "")))
        for name, chosen in _SELECTOR.findall(query)
    ]


def labels_by(query: str) -> frozenset[str] | None:
    """The labels that a query is summed by; None where it is not."""
    lists = _BY.findall(query)
    return frozenset(name.strip() for names in lists for name in names.split(",")) if lists else None
