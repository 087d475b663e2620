from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orion_recall.engines import replay_folders
from orion_recall.engines.replay_folders import delete_left, replay_folder

_KILLED = """
import os, signal, sys
from pathlib import Path
from orion_recall.engines.replay_folders import replay_folder
with replay_folder(Path(sys.argv[1])) as folder:
    (folder / "texts").write_text("what was said")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, for this test alone."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(replay_folders.tempfile, "tempdir", str(place))
    return place


def kept_in(*places: Path) -> list[Path]:
    return [one for place in places if place.is_dir() for one in place.glob("orion-replay-*")]


@pytest.mark.parametrize("has_data", [True, False])
def test_what_a_killed_replay_left_goes_with_the_next(tmp_path: Path, temporary: Path, *, has_data: bool) -> None:
    data = tmp_path / "data"
    if has_data:
        data.mkdir()
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(data)], check=False)
    assert killed.returncode == -9
    (left,) = kept_in(data, temporary)
    assert (left.parent, left.stat().st_mode & 0o777) == (data if has_data else temporary, 0o700)
    with replay_folder(data) as folder:
        assert kept_in(data, temporary) == [folder]
        (folder / "texts").write_text("what was said")
        assert delete_left(data) == (0, 1), "a running one stays"
        assert (folder / "texts").is_file()
    assert kept_in(data, temporary) == []


def test_forgetting_deletes_them_and_counts_them(tmp_path: Path, temporary: Path) -> None:
    for place in (tmp_path, temporary):
        (place / "orion-replay-old").mkdir()
        (place / "orion-replay-old" / "texts").write_text("what was said")
    elsewhere = tmp_path / "mine"
    elsewhere.mkdir()
    (tmp_path / "orion-replay-link").symlink_to(elsewhere)
    assert delete_left(tmp_path) == (2, 0)
    assert elsewhere.is_dir()
    assert kept_in(tmp_path, temporary) == [tmp_path / "orion-replay-link"]
