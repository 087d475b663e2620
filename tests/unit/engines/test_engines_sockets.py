from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from orion_recall.engines.engine import make_socket_folder, remove_socket_folder, socket_folder
from orion_recall.errors import EngineError

UID = os.geteuid()
needs_root = pytest.mark.skipif(UID != 0, reason="only root can give folders to others")


def test_without_a_runtime_folder_the_path_is_short_and_under_tmp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    folder = socket_folder(tmp_path / ("long" * 50), UID)
    assert folder.parent == Path("/tmp")
    assert folder.name.startswith(f"orion-{UID}-")
    assert len(str(folder / ".s.PGSQL.5432.lock")) < 108


def test_a_private_runtime_folder_is_used_but_not_for_another_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    runtime = tmp_path_factory.mktemp("run")
    runtime.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert socket_folder(Path("/data"), UID).parent == runtime
    assert socket_folder(Path("/data"), UID + 1).parent == Path("/tmp")


def test_the_folder_is_made_private_is_found_again_and_goes_when_empty(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_socket_folder(folder, UID)
    make_socket_folder(folder, UID)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "a.sock").write_text("")
    remove_socket_folder(folder)
    assert folder.exists()
    (folder / "a.sock").unlink()
    remove_socket_folder(folder)
    assert not folder.exists()


def test_a_folder_open_to_others_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(EngineError, match=r"is not a private folder of uid .* mode 755"):
        make_socket_folder(folder, UID)


@needs_root
def test_a_folder_that_another_user_made_first_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    for uid in (0, 65534):
        with pytest.raises(EngineError, match="belongs to uid 12345"):
            make_socket_folder(folder, uid)
