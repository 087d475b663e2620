from __future__ import annotations

import pytest

from orion_recall.cli.memory.options import conditions_of, fields_of
from orion_recall.errors import SettingsError


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
    assert fields_of([f"speaker={odd}", "title=", "tags=a, b,"]) == {
        "speaker": odd,
        "title": None,
        "tags": ["a", "b"],
    }


@pytest.mark.parametrize(
    ("pairs", "why"),
    [([], "at least one"), (["tags=a", "tags=b"], "'tags' is given twice"), (["since=soon"], "'soon' is no time")],
)
def test_conditions_that_would_match_more_than_is_meant_are_refused(pairs: list[str], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        conditions_of(pairs)


def test_a_condition_that_there_is_not_is_told_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match=r"no condition 'sesion'; there are .*session_id"):
        conditions_of(["sesion=s-17"])
