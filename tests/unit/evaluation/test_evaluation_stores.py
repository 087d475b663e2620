"""The stores of trials: those of the plan's memories, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orion_recall.evaluation import trials
from orion_recall.evaluation.trials import Plan
from orion_recall.settings import Settings
from orion_recall.values import Memory
from tests.samples.recall_fakes import profile


class Opened(Exception):
    pass


class Progress:
    def begins(self, what: str, total: int) -> None:
        """Nothing is shown."""

    def advanced(self, done: int) -> None:
        """Nothing is shown."""


async def test_sources_of_other_packages_stay_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def open_sources(_: Settings, **given: Any) -> Any:
        assert given["with_packages"] is False
        raise Opened

    def no_memories(_: Path) -> Sequence[Memory]:
        return ()

    memories = tmp_path / "memories.jsonl"
    monkeypatch.setattr(trials, "open_sources", open_sources)
    monkeypatch.setattr(trials, "read_memories", no_memories)
    plan = Plan(memories=memories, queries_file=memories, queries=(), profile=profile())
    with pytest.raises(Opened):
        async with trials.trials(plan, Settings.read(data_dir=tmp_path), Progress()):
            pass
