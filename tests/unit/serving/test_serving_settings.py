"""Settings of a service that cannot be used are refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orion_recall.errors import SettingsError
from orion_recall.postgres.periods import Period, Periods
from orion_recall.serving.backends import open_sources
from orion_recall.serving.background import read_retention
from orion_recall.serving.service import check_settings
from orion_recall.settings import Settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"embedder": "tei"}, "ORION_TEI_URL is not set"),
        ({"embedder": "transformers"}, "ORION_MODEL is not set"),
        ({"reranker": "tei"}, "ORION_RERANKER_URL is not set"),
        ({"model_path": Path("/nowhere")}, "ORION_MODEL_PATH: no ONNX weights at /nowhere"),
        ({"default_profile": "mine.v1"}, r"'mine.v1' is not in the shipped profiles, only .*reflect\.v1"),
        ({"mappings": Path("/nowhere.yaml")}, "ORION_MAPPINGS: /nowhere.yaml cannot be read"),
        ({"health_host": "host.invalid", "health_port": 1}, "ORION_HEALTH_PORT: cannot listen on host.invalid"),
    ],
)
async def test_a_setting_that_cannot_be_used_is_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        await check_settings(Settings.read(**settings))


async def test_a_secret_of_a_mapped_store_that_is_not_set_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WIKI_TOKEN", raising=False)
    path = tmp_path / "mappings.yaml"
    path.write_text(
        'sparql: [{name: wiki, url: "http://graph/query", token_env: WIKI_TOKEN, tenant: a, text: "urn:says"}]'
    )
    with pytest.raises(SettingsError, match="'wiki' takes its secret from WIKI_TOKEN"):
        await check_settings(Settings.read(mappings=path))


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
    decisions, requests, dead_letter_days = read_retention(said(tmp_path, FILE))
    assert decisions == Periods(days=90, by_tenant={"ana": 7, "ben": None})
    assert requests == Periods(days=7, by_tenant={"ana": 1})
    assert dead_letter_days == 30
    assert decisions.each == [Period(days=90, but=("ana", "ben")), Period(days=7, tenant="ana")]


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


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sparql_token": "hunter2"}, "ORION_SPARQL_TOKEN is set and ORION_SPARQL_URL is not"),
        ({"sparql_update_url": "http://h/update"}, "ORION_SPARQL_UPDATE_URL is set"),
        ({"sparql_url": "http://h/query", "sparql_user": "ana"}, "ORION_SPARQL_USER, ORION_SPARQL_PASSWORD"),
    ],
    ids=str,
)
async def test_settings_of_a_graph_that_do_not_go_together_are_refused(
    fields: dict[str, Any], said: str, tmp_path: Any
):
    with pytest.raises(SettingsError, match=said) as refused:
        async with open_sources(Settings.read(data_dir=tmp_path, **fields)):
            pass
    assert "hunter2" not in str(refused.value)
