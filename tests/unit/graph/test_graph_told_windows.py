from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.graph.vocabulary import range_of, read_window, window
from orion_recall.graph.walks.path import Path, find_path
from tests.stand_ins.graph import NOW, TENANT, Said, sample_graph


def at(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("2026", "2026-01-01", "2027-01-01"),
        ("2026-05", "2026-05-01", "2026-06-01"),
        ("2026-12", "2026-12-01", "2027-01-01"),
        ("2026-05-12", "2026-05-12", "2026-05-13"),
        ("2026-05-12T10:00:00", "2026-05-12T10:00:00", "2026-05-12T10:00:01"),
        ("2026-05-12T10:00:00+02:00", "2026-05-12T08:00:00", "2026-05-12T08:00:01"),
        ("2026-05-12/2026-05-14", "2026-05-12", "2026-05-15"),
        ("2025/2026-02", "2025-01-01", "2026-03-01"),
    ],
)
def test_a_time_in_a_query_is_an_interval(text: str, since: str, until: str):
    assert range_of(text) == (at(since), at(until))


@pytest.mark.parametrize(
    "text",
    [
        "9999-12-31",
        "9999-12",
        "2026-05-12/9999-12-31",
        "",
        "soon",
        "2026-13",
        "2026-05-32",
        "2026-05/2025",
        "/",
        "12 May 2026",
    ],
)
def test_anything_else_is_no_time(text: str):
    with pytest.raises(ValueError, match=r"."):
        range_of(text)


@given(st.integers(-30_000_000_000, 200_000_000_000), st.integers(60, 10_000_000))
def test_windows_are_read_as_they_were_written_and_sort_by_time(since: int, length: int):
    made = window(float(since), float(since + length))
    assert made is not None
    assert read_window(made)[:2] == (since, since + length)
    later = window(float(since + 1), float(since + length))
    assert later is not None and made < later


async def test_of_two_ways_the_one_that_is_told_of_the_time_comes_first():
    graph = sample_graph(
        [
            Said(id="a", text="", at=NOW, statements=(("Ana", "knows", "Bo"), ("Bo", "knows", "Dora"))),
            Said(id="b", text="", at=NOW, statements=(("Ana", "knows", "Carl"), ("Carl", "knows", "Dora")),
                 told=(("2020-05-01", "2020-06-01"),)),
        ]
    )  # fmt: skip
    ends = [f"urn:orion:entity:{name}" for name in ("ana", "dora")]
    way: dict[str, Path] = {}
    for name, during in (("2020", [range_of("2020")]), ("2021", [range_of("2021")])):
        (path,) = (await find_path(graph, TENANT, *ends, now=NOW, during=during)).paths
        way[name] = path
    assert way["2020"].entities == ("Ana", "Carl", "Dora")
    assert all("time" in step.cost and step.cost["time"] == 0.0 for step in way["2020"].steps)
    assert all(step.cost["time"] == 1.0 for step in way["2021"].steps)
    assert way["2020"].steps[0].memories[0].told == ("2020-05-01T00:00:00Z/2020-06-01T00:00:00Z",)
    (plain,) = (await find_path(graph, TENANT, *ends, now=NOW)).paths
    assert all("time" not in step.cost for step in plain.steps), "nothing is asked of times where none is named"
