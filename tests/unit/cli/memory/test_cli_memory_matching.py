"""`orion-recall memory updateq` and `deleteq`: nothing is changed unasked."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from orion_recall.cli.memory.matching import confirmed
from orion_recall.contracts import MemoryReceiptV1, MemoryVerdictV1
from orion_recall.errors import SettingsError


def test_without_anybody_to_ask_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: dict[str, Any] = {"stored": 0, "unchanged": 0, "conflict": 0, "rejected": 0}
    looked = MemoryReceiptV1(matched=1, results=[MemoryVerdictV1(id="m-1", status="matched")], **counts)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SettingsError, match=r"^delete 1 memory\?.*give --yes"):
        confirmed(looked, "delete", yes=False, as_json=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert confirmed(looked, "delete", yes=False, as_json=False)
