from __future__ import annotations

import io
import sys

import pytest

from orion_recall.cli.memory.store import store_memory
from orion_recall.errors import SettingsError


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (b'{"id": "m", "text": "\xff"}', "standard input is not UTF-8 at byte 21"),
        (b"[1]", "expected one JSON object"),
        (b'{"id": "m", "text": NaN}', "standard input: NaN is no JSON number"),
        (b'{"id": "m", "id": "n", "text": "x"}', "standard input: the field 'id' is given twice"),
        (b"[" * 200_000, "nested too deeply"),
        (b'\xef\xbb\xbf{"id": "m"', "standard input: not JSON: Expecting .* at column"),
    ],
)
def test_what_cannot_be_read_from_standard_input_is_said(
    given: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    with pytest.raises(SettingsError, match=why):
        store_memory()
