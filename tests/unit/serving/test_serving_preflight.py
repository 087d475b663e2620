"""What is wrong with the settings is said before anything is started."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from orion_recall.errors import SettingsError
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


async def test_a_port_that_somebody_has_is_named_and_a_free_one_stays_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"ORION_HEALTH_PORT: cannot listen on 127.0.0.1 port {port}"):
            await check_settings(Settings.read(health_port=port))
    await check_settings(Settings.read(health_port=port))
    with socket.create_server(("127.0.0.1", port)):
        pass


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
