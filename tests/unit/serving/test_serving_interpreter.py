"""What a process that serves sets of Python itself."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import gc, sys
from orion_recall.foreground import tune_for_serving
default = sys.getswitchinterval(), gc.get_threshold()[0]
tune_for_serving()
print(sys.getswitchinterval() <= default[0] / 5, gc.get_threshold()[0] > default[1], gc.get_freeze_count() > 1000)
"""


def test_threads_give_way_soon_and_what_stays_is_set_aside() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
