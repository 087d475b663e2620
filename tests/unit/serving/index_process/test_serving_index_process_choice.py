"""When a worker's index has a process of its own."""

from __future__ import annotations

from typing import Any

import pytest

from orion_recall.serving import backends
from orion_recall.serving.backends import has_own_process
from orion_recall.settings import Settings


@pytest.mark.parametrize(
    ("fields", "processors", "workers", "expected"),
    [
        ({}, 1, 1, False),
        ({}, 2, 1, True),
        ({}, 2, 2, False),
        ({}, 4, 2, True),
        ({"embedder": "transformers", "model": "m"}, 8, 1, False),
        ({"index_process": "yes"}, 1, 1, True),
        ({"index_process": "no"}, 8, 1, False),
        ({"index_process": "yes", "qdrant_url": "http://localhost:6333"}, 8, 1, False),
    ],
)
def test_it_takes_two_processors_for_each_worker_or_the_setting(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], processors: int, workers: int, expected: bool
):
    monkeypatch.setattr(backends, "_processors", lambda: processors)
    assert has_own_process(Settings.read(**fields), workers) is expected
