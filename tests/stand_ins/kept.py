"""What the tests make once on a machine and use in every later run: folders under the temporary one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def kept_folder(name: str) -> Path:
    """A folder that only this user may enter. `name` says what its content depends on: nothing in it is replaced.

    Several processes may fill it at a time, and one may be killed meanwhile: write beside the place, then rename.
    """
    folder = Path(tempfile.gettempdir(), f"orion-tests-{name}-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    assert found.st_uid == os.geteuid(), f"{folder} is somebody else's: remove it"
    assert not found.st_mode & 0o077, f"{folder} is open to others: remove it"
    return folder
