from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from orion_recall.errors import ModelError, TransientSourceError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.ranking.late_interaction import late_interaction, scaled
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.reply import reply
from orion_recall.recall.types import Recalled
from orion_recall.sources.several_stores import Breaker
from orion_recall.text.passages import FIRST_PASSAGES
from tests.samples.recall_fakes import NOW, FakeSource, Speakers, hit, key, profile, query, sources, view


class Compared:
    """Gives the closeness it is given, by name, of those it is asked for."""

    def __init__(
        self, *, off: str | None = None, error: Exception | None = None, silent: bool = False, **near: float
    ) -> None:
        self.off, self.error, self.silent = off, error, silent
        self.near = {key(name): value for name, value in near.items()}
        self.asked: list[tuple[str, set[int]]] = []

    async def why_off(self) -> str | None:
        return self.off

    async def closeness(
        self, text: str, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        self.asked.append((text, set(keys)))
        if self.silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return {one: self.near[one] for one in keys if one in self.near}


KEYS = [key(name) for name in "abc"]


async def asked(compared: Compared | None, breaker: Breaker | None = None, **fields: Any) -> Any:
    wanted: dict[str, Any] = {"timeout_s": 5.0} | fields
    return await late_interaction("what?", KEYS, compared, breaker or Breaker(), **wanted)


def test_the_part_is_from_the_farthest_to_the_nearest():
    assert scaled({1: 0.2, 2: 0.6, 3: 0.4}) == pytest.approx({1: 0.0, 2: 1.0, 3: 0.5})
    assert scaled({1: 0.2, 2: 0.2}) == {1: 1.0, 2: 1.0}
    assert scaled({}) == {}


async def test_those_that_could_be_compared_are_told():
    parts, report = await asked(Compared(a=0.1, b=0.5))
    assert parts == pytest.approx({key("a"): 0.1, key("b"): 0.5})
    assert (report.status, report.count, report.error) == ("ok", 2, None)


@pytest.mark.parametrize("error", [TransientSourceError("no server"), ModelError("no server")])
async def test_a_failure_costs_the_part_alone_and_repeated_is_left_alone(error: Exception):
    compared, breaker = Compared(error=error), Breaker()
    for _ in range(20):
        parts, report = await asked(compared, breaker)
        assert (parts, report.status) == ({}, "failed")
        assert "no server" in report.error
    assert len(compared.asked) < 20
    assert "left alone" in (await asked(compared, breaker))[1].error


async def test_a_comparison_that_hangs_is_given_up_in_time():
    began = time.perf_counter()
    parts, report = await asked(Compared(silent=True), timeout_s=0.05)
    assert time.perf_counter() - began < 30
    assert (parts, report.status, report.error) == ({}, "late", "no answer within 50 ms")
    assert (await asked(Compared(a=1.0), timeout_s=0.0))[1].status == "late"


async def test_what_is_not_offered_is_off_and_says_why():
    compared = Compared(off="no tokens here", a=1.0)
    parts, report = await asked(compared)
    assert (parts, report.status, report.error) == ({}, "off", "no tokens here")
    assert compared.asked == []
    assert (await asked(None))[1].status == "off"


async def test_an_index_that_has_just_not_answered_is_not_waited_for_again(tokens: TokenCounter):
    compared = Compared(a=1.0)
    assert (await asked(compared, is_away=True))[1].status == "failed"
    broken = FakeSource("vector", errors=[TransientSourceError("no server")])
    graph = FakeSource("rdf", [hit("a", 1.0)])
    made = await recall(
        query(), late_profile(), sources(tokens, [broken, graph], view("a"), late_interaction=compared), now=NOW
    )
    assert made.late_interaction is not None
    assert (made.late_interaction.status, made.late_interaction.error) == ("failed", "the index is away")
    assert [item.parts.get("late") for item in made.ranked] == [None]
    assert compared.asked == []


def late_profile(weight: float = 1.0, **fields: Any) -> Any:
    return profile(ranking={"fusion": 0.1, "similarity": 0.0, "recency": 0.0, "late": weight}, **fields)


async def recalled(tokens: TokenCounter, compared: Compared | None, weight: float = 1.0) -> Recalled:
    found = FakeSource("vector", [hit("a", 0.9), hit("b", 0.5), hit("mapped", 0.4)])
    made = sources(
        tokens,
        [found],
        *(view(name) for name in ("a", "b", "mapped")),
        late_interaction=compared,
        lexicon=Speakers("Ana"),
    )
    return await recall(query("what did Ana paint?"), late_profile(weight), made, now=NOW)


async def test_the_part_decides_with_its_weight_and_is_asked_for_the_pool_without_names(tokens: TokenCounter):
    compared = Compared(a=0.1, b=0.7)
    made = await recalled(tokens, compared)
    assert compared.asked == [("what did paint?", {key("a"), key("b"), key("mapped")})]
    assert {item.memory.id: item.parts.get("late") for item in made.ranked} == {"a": 0.0, "b": 1.0, "mapped": None}
    places = [item.memory.id for item in made.ranked]
    assert places.index("b") < places.index("a")
    assert made.late_interaction is not None
    assert (made.late_interaction.status, made.late_interaction.count) == ("ok", 2)


async def test_without_a_weight_nothing_is_asked(tokens: TokenCounter):
    compared = Compared(a=0.1, b=0.7)
    made = await recalled(tokens, compared, weight=0.0)
    assert (compared.asked, made.late_interaction) == ([], None)
    assert all("late" not in item.parts for item in made.ranked)


async def test_a_failure_is_told_and_degrades_nothing(tokens: TokenCounter):
    made = await recalled(tokens, Compared(error=TransientSourceError("no server")))
    assert made.outcome == "ok"
    assert [item.memory.id for item in made.ranked] == ["a", "b", "mapped"]
    said = query("what did Ana paint?", options={"k": 3})
    answer = reply(said, made, latency_ms=1.0, profile="p", decision_id="d")
    assert answer.bundle.stats.sources is not None
    told = answer.bundle.stats.sources["late"]
    assert (told.status, told.error) == ("failed", "no server")
    kept = decision(
        RequestFacts(decision_id="d", corr_id="c", query=said), outcome="ok", latency_ms=1.0, recalled=made
    )
    assert kept.sources["late"].status == "failed"
