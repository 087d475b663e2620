"""The retention file: days by table and tenant, and what is no such file."""

from __future__ import annotations

from pathlib import Path

import pytest

from orion_recall.errors import SettingsError
from orion_recall.postgres.periods import Period, Periods
from orion_recall.serving.retention_file import read_retention
from orion_recall.settings import Settings

FILE = """
decisions: 90
dead_letters: 30
tenants:
  ana: {decisions: 7, requests: 1}
  ben: {decisions: keep}
"""


def said(folder: Path, text: str, **settings: int) -> Settings:
    path = folder / "retention.yaml"
    path.write_text(text, encoding="utf-8")
    return Settings.read(retention=path, **settings)


def test_a_file_says_days_by_table_and_tenant(tmp_path: Path):
    kept = read_retention(said(tmp_path, FILE))
    assert kept.decisions == Periods(days=90, by_tenant={"ana": 7, "ben": None})
    assert kept.requests == Periods(days=7, by_tenant={"ana": 1})
    assert kept.dead_letter_days == 30
    assert kept.decisions.each == [Period(days=90, but=("ana", "ben")), Period(days=7, tenant="ana")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("decisions: soon", "decisions: .*write days, or keep"),
        ("decisions: 0", "decisions"),
        ("decisions: 1.5", "decisions"),
        ("memories: 3", "memories"),
        ("tenants: {ana: {dead_letters: 3}}", "tenants.ana.dead_letters"),
        ("tenants: [ana]", "tenants"),
        ("a: [", "is not YAML"),
        ("decisions: 2026-13-45", "month must be in 1..12.*write days, or keep"),
    ],
)
def test_a_file_that_says_something_else_is_refused_by_name_and_place(tmp_path: Path, text: str, why: str):
    with pytest.raises(SettingsError, match=f"ORION_RETENTION: .*retention.yaml.*{why}"):
        read_retention(said(tmp_path, text))
