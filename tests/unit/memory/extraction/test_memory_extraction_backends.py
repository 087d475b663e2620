from __future__ import annotations

from typing import Any

import pytest

from orion_recall.errors import SettingsError
from orion_recall.memory.extraction.extractors import open_extractors
from orion_recall.settings import Settings

SECRET = "k-" + "7" * 8


async def opened(**changes: Any) -> list[str]:
    async with open_extractors(Settings.read(**changes)) as extractors:
        return [one.name for one in extractors]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extractor": "llm", "llm_model": "m"}, "ORION_LLM_URL is not set, and ORION_EXTRACTOR=llm needs it"),
        ({"extractor": "llm", "llm_url": "http://x/v1"}, "ORION_LLM_MODEL is not set"),
        ({"extractor": "other"}, "ORION_EXTRACTOR: .*light"),
        ({"llm_url": "ftp://x"}, "ORION_LLM_URL: .*http://host:port/v1"),
        ({"llm_url": f"http://me:{SECRET}@x/v1"}, "ORION_LLM_URL: .*ORION_LLM_API_KEY"),
        ({"llm_url": f"http://x/v1?key={SECRET}"}, "ORION_LLM_URL: .*ORION_LLM_API_KEY"),
        ({"llm_url": f"http://x:{SECRET}/v1"}, "ORION_LLM_URL: "),
        ({"llm_timeout_s": 0}, "ORION_LLM_TIMEOUT_S"),
        ({"llm_concurrency": 0}, "ORION_LLM_CONCURRENCY"),
    ],
)
async def test_what_is_missing_or_wrong_is_said_without_secrets(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        await opened(**changes)
    assert SECRET not in str(caught.value)


async def test_spacy_that_is_not_installed_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("orion_recall.memory.extraction.extractors.importlib.import_module", missing)
    with pytest.raises(SettingsError, match=r"pip install '\.\[spacy\]'"):
        await opened(extractor="spacy")
