from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.cli.output import Table, console, plain, prose, visible

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


ID = "0b7d3c1e-5a52-4c3b-9c39-1b1f0a7e42aa"
LONG = "A sentence with many words, of which none may be cut in two, however narrow the screen is. " * 3


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    def show(renderable: Table, width: int | None = None) -> list[str]:
        if width is not None:
            monkeypatch.setenv("COLUMNS", str(width))
        console().print(renderable)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return show


@pytest.mark.parametrize("width", [50, 60, 80, 100, 140])
def test_no_id_number_or_json_is_broken_and_prose_wraps_between_words(
    printed: Callable[..., list[str]], width: int
) -> None:
    whole = {"vector": 12345, "words": [1, 2]}
    lines = printed(Table(("id", "count", "parts", "says"), [(ID, 1234567, whole, LONG)] * 2), width)
    assert max(map(len, lines)) <= width
    shown = "\n".join(lines)
    for value in (ID, "1234567", json.dumps(whole)):
        assert shown.count(value) == 2
    assert set(re.split(r"\s+", shown)) <= {
        "", *LONG.split(), *json.dumps(whole).split(), ID, "1234567", "id", "count", "parts", "says",
    }  # fmt: skip


def test_what_does_not_fit_side_by_side_is_a_list_of_fields(printed: Callable[..., list[str]]) -> None:
    lines = printed(Table(("id", "other id", "says"), [(ID, ID, "short"), (ID, ID, "again")]), 60)
    assert lines == [
        f"id        {ID}", f"other id  {ID}", "says      short", "",
        f"id        {ID}", f"other id  {ID}", "says      again",
    ]  # fmt: skip


def test_prose_wraps_on_a_screen_and_stays_one_line_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    prose(LONG)
    assert capsys.readouterr().out.rstrip("\n") == LONG
    monkeypatch.setenv("COLUMNS", "40")
    prose(LONG)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(line.rstrip() for line in lines) == LONG.strip()
