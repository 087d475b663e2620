"""Which store stands where, by the settings."""

from __future__ import annotations

from typing import Any

import pytest

from orion_recall.errors import SettingsError
from orion_recall.serving.backends import open_sources
from orion_recall.settings import Settings


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
