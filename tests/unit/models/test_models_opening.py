from __future__ import annotations

import pytest

from orion_recall.errors import ModelError, SettingsError
from orion_recall.models.opening import open_embedder, open_reranker
from orion_recall.models.tei import TeiEmbedder, TeiReranker
from orion_recall.settings import Settings

NOBODY = "http://127.0.0.1:9"


async def test_a_server_is_chosen_by_its_address_and_may_be_away() -> None:
    settings = Settings.read(embedder="tei", tei_url=NOBODY, reranker="tei", reranker_url=NOBODY)
    async with open_embedder(settings) as embedder, open_reranker(settings) as reranker:
        assert isinstance(embedder, TeiEmbedder)
        with pytest.raises(ModelError, match="cannot be reached"):
            _ = embedder.name
        assert isinstance(reranker, TeiReranker)
        with pytest.raises(ModelError, match="cannot be reached"):
            await reranker.scores("crane", ["boat"])


@pytest.mark.parametrize(
    ("chosen", "missing"), [("transformers", "ORION_MODEL is not set"), ("tei", "ORION_TEI_URL is not set")]
)
async def test_an_embedder_without_its_name_or_address_is_refused(chosen: str, missing: str) -> None:
    with pytest.raises(SettingsError, match=missing):
        async with open_embedder(Settings.read(embedder=chosen)):
            pass


@pytest.mark.parametrize(
    ("chosen", "missing"),
    [("transformers", "ORION_RERANKER_MODEL is not set"), ("tei", "ORION_RERANKER_URL is not set")],
)
async def test_a_reranker_without_its_name_or_address_is_refused(chosen: str, missing: str) -> None:
    with pytest.raises(SettingsError, match=missing):
        async with open_reranker(Settings.read(reranker=chosen)):
            pass
