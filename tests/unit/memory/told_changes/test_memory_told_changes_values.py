"""Equal times are equal values, however they are written."""

from __future__ import annotations

import pytest

from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.told_changes.values import values_of
from orion_recall.text.normal import words
from tests.samples.successions import DAY, reading


def values(text: str) -> dict[str, frozenset[str]]:
    folded = text.casefold()
    return values_of(folded, words(folded), frozenset())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at half past seven", "19:30"),
        ("at seven", "7 pm"),
        ("at noon", "12:00"),
        ("the first of June", "June 1st"),
        ("3 Sept", "September 3"),
        ("the 03 May", "3rd of May"),
    ],
)
def test_the_same_time_is_one_value(one: str, other: str) -> None:
    assert values(one) == values(other)


def test_months_are_values_and_words_like_them_are_not() -> None:
    assert values("in June")["month"] == {"jun"}
    assert values("on 3 May")["month"] == {"may"}
    assert "month" not in values("it may rain, so we march on")
    assert "month" not in values("next to April, who sings")
    assert "month" not in values("vegan since January")


def test_an_address_is_no_number() -> None:
    told = values("at 31 Weaver Street for 600 euros")
    assert told["address"] == {"31 weaver street"}
    assert "number" not in told


def test_a_moved_month_succeeds_the_month_before() -> None:
    old = reading("Oda and Per are getting married in June.")
    new = reading("Oda says the wedding is put off, it is in September.", at=DAY)
    judged = judge(new, old)
    assert judged is not None
    assert judged.confidence >= SUCCEEDS
    other = judge(reading("The wedding of Kasper and Jule is put off, it is in September.", at=DAY), old)
    assert other is None or other.confidence < SUCCEEDS


def test_whoever_sat_tells_no_saturday() -> None:
    assert "weekday" not in values("we sat on the rocks, and she just sat there")
    assert values("sat 5 pm, at the pier")["weekday"] == {"saturday"}
    assert "clock" not in values("salt is £8.50 a kilo")
    assert values("90 cents each")["money"] == {"90"}
