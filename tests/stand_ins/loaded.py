"""What a forked process may run: loaded before it is forked."""

from __future__ import annotations

import gc
from importlib import import_module

from orion_recall.cli.main import COMMANDS, load
from orion_recall.models.onnx_encoder import find_weights
from orion_recall.profile.watch import loaded_profiles
from tests.stand_ins import quick_start

quick_start.install()
for _name in COMMANDS:
    load(_name)
for _name in ("crashing_worker", "qdrant_rest"):
    import_module(f"tests.stand_ins.{_name}")
loaded_profiles(None)
find_weights()
# A fork would copy every page that its collector writes to.
gc.collect()
gc.freeze()
