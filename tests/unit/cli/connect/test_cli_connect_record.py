from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from orion_recall.cli.connect.record import with_record
from orion_recall.errors import EngineError
from orion_recall.settings import Settings


async def test_a_folder_whose_database_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "postgres").symlink_to(tmp_path / "gone")
    settings = Settings.read(data_dir=tmp_path, postgres_dsn=None)
    async with contextlib.AsyncExitStack() as stack:
        with pytest.raises(EngineError, match=r"postgres is a link to .*/gone, which is not there: bring .* back"):
            await with_record(settings, stack)


async def test_a_folder_without_a_database_stays_without_one(tmp_path: Path) -> None:
    settings = Settings.read(data_dir=tmp_path, postgres_dsn=None)
    async with contextlib.AsyncExitStack() as stack:
        assert await with_record(settings, stack) is settings
    assert list(tmp_path.iterdir()) == []
