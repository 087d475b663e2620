"""What a forked process may run: loaded before it is forked."""

from __future__ import annotations

from importlib import import_module

from orion_recall.cli.main import COMMANDS, load

for _name in COMMANDS:
    load(_name)
for _name in ("tests.stand_ins.qdrant_rest", "tests.stand_ins.tei"):
    import_module(_name)
