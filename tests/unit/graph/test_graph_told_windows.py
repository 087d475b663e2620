from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from orion_recall.graph.vocabulary import read_window, window
from orion_recall.graph.walks.path import Path, find_path
from tests.stand_ins.graph import NOW, TENANT, Said, sample_graph


def at(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


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
    for name, during in (
        ("2020", [(at("2020-01-01"), at("2021-01-01"))]),
        ("2021", [(at("2021-01-01"), at("2022-01-01"))]),
    ):
        (path,) = (await find_path(graph, TENANT, *ends, now=NOW, during=during)).paths
        way[name] = path
    assert way["2020"].entities == ("Ana", "Carl", "Dora")
    assert all("time" in step.cost and step.cost["time"] == 0.0 for step in way["2020"].steps)
    assert all(step.cost["time"] == 1.0 for step in way["2021"].steps)
    assert way["2020"].steps[0].memories[0].told == ("2020-05-01T00:00:00Z/2020-06-01T00:00:00Z",)
    (plain,) = (await find_path(graph, TENANT, *ends, now=NOW)).paths
    assert all("time" not in step.cost for step in plain.steps), "nothing is asked of times where none is named"
