from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.cli.output import console, plain, print_json, table, visible

MOMENT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), None),
        (float("inf"), None),
        (1.5, 1.5),
        (True, True),
        (Decimal(3), 3),
        (Decimal("3.25"), 3.25),
        (Decimal("NaN"), None),
        (MOMENT, "2026-03-01T09:30:00+00:00"),
        (date(2026, 3, 1), "2026-03-01"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({b"a": (b"\xff", 1)}, {"a": ["\\xff", 1]}),
        (None, None),
    ],
)
def test_any_value_becomes_json(value: object, told: object) -> None:
    assert plain(value) == told
    assert type(plain(value)) is type(told)


@given(
    st.recursive(st.text() | st.floats() | st.integers() | st.binary(), lambda inner: st.lists(inner, max_size=3))
)
def test_what_is_made_plain_is_json_that_any_reader_takes(value: object) -> None:
    json.dumps(plain(value), allow_nan=False)


def test_json_is_ascii_and_on_one_line_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "Skår\ud800"}, one_line=True)
    printed = capsys.readouterr().out
    assert printed == '{"text": "Sk\\u00e5r\\ud800"}\n'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\x1b[31mb\nc", "a\N{REPLACEMENT CHARACTER}[31mb\nc"),
        ("\u202eabc", "\N{REPLACEMENT CHARACTER}abc"),
        (None, ""),
        (True, "true"),
        (1.23456789, "1.23457"),
        (MOMENT, "2026-03-01 09:30:00"),
        ({"a": [1]}, '{"a": [1]}'),
        ("Ærøskøbing", "Ærøskøbing"),
    ],
)
def test_a_value_is_shown_without_what_steers_a_terminal(value: object, shown: str) -> None:
    assert visible(value) == shown


def test_a_table_shows_markup_as_text_and_is_not_squeezed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    console().print(table(("[b]name[/b]", "count"), [("[red]x[/red]" + "y" * 80, 1), ("z", None)]))
    printed = capsys.readouterr().out
    assert "[b]name[/b]" in printed
    assert "[red]x[/red]" + "y" * 80 in printed
