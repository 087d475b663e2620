"""`orion-recall memory`: what is refused before anything is sent, and what is printed of the record."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from orion_recall.cli.memory.transfer import lines_of
from orion_recall.cli.memory.write import conditions_of, confirmed, fields_of, say
from orion_recall.cli.output import printing
from orion_recall.contracts import MemoryReceiptV1, MemoryVerdictV1
from orion_recall.errors import ImportFileError, SettingsError


def test_without_anybody_to_ask_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SettingsError, match=r"^delete 1 memory\?.*give --yes"):
        confirmed("delete 1 memory?", ["m-1"], 1)
    with printing(json=True), pytest.raises(SettingsError, match=r"With --json nobody is asked: give --yes"):
        confirmed("delete 1 memory?", ["m-1"], 1)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert confirmed("delete 1 memory?", ["m-1"], 1)


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        (["speaker"], "write FIELD=VALUE"),
        (["=Ana"], "write FIELD=VALUE"),
        (["spaker=Ana"], "no field 'spaker'"),
        (["id=m-2"], "id is no field to set: give the ID itself"),
        (["tenant=t"], "tenant is no field to set: give --tenant"),
        (["tags=a", "title=x", "tags=b"], "'tags' is given twice"),
        (['metadata={"a":'], "is not JSON"),
    ],
)
def test_a_set_that_would_not_do_what_it_says_is_refused(pairs: list[str], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        fields_of(pairs)


def test_a_value_may_hold_anything_and_nothing_clears() -> None:
    odd = 'a=b; "c" {d} \\ </script>\n'
    assert fields_of([f"speaker={odd}", "title=", "tags=a, b,", "confidence=0.5"]) == {
        "speaker": odd,
        "title": None,
        "tags": ["a", "b"],
        "confidence": 0.5,
    }


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([], "at least one"),
        (["tags=a", "tags=b"], "'tags' is given twice"),
        (["since=soon"], "'soon' is no time"),
        (["sesion=s-17"], r"no condition 'sesion'; there are .*session_id"),
    ],
)
def test_conditions_that_would_match_more_than_is_meant_are_refused(pairs: list[str], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        conditions_of(pairs)


def test_an_import_of_standard_input_can_be_read_twice_and_is_gone_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "a"}\nno\xffline\n')))
    with lines_of(Path("-")) as path:
        assert [path.read_bytes() for _ in range(2)] == [b'{"id": "a"}\nno\xffline\n'] * 2
    assert not path.exists()
    with lines_of(tmp_path / "m.jsonl") as path:
        assert path == tmp_path / "m.jsonl"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with pytest.raises(ImportFileError, match="pipe lines into it"), lines_of(Path("-")):
        pass


@pytest.mark.parametrize(
    ("pending", "named", "said"),
    [
        (None, [], "1 stored"),
        (False, [], "1 stored"),
        (True, ["index"], "1 stored; recalls may not find it yet: index of some worker does not have it"),
        (True, ["index", "graph"], "1 stored; recalls may not find it yet: index and graph of some worker do not"),
        (True, [], "1 stored; recalls may not find it yet: whether index and graph have it cannot"),
    ],
)
def test_what_the_next_recall_may_not_find_is_said(
    pending: bool | None, named: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = [MemoryVerdictV1(id="m-1", status="stored")]
    counts: Any = {"stored": 1, "unchanged": 0, "conflict": 0, "rejected": 0, "position": 4}
    receipt = MemoryReceiptV1(**counts, pending=pending, pending_in=named, results=verdicts)
    assert say(receipt) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith(said)
    assert ("may not find" in printed) == bool(pending)
