"""What a forked process may run: loaded before it is forked."""

from __future__ import annotations

from orion_recall.cli.main import COMMANDS, load

for _name in COMMANDS:
    load(_name)
