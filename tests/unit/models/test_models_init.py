from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_loading_the_runtime_leaves_no_device_id_behind(tmp_path: Path) -> None:
    """Its telemetry, which is on by default, would write one before anything is run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", "import orion_recall.models.onnx_encoder"],
        env=kept | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
