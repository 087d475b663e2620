from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from orion_recall.errors import SourceError
from orion_recall.memory.replicas.tombstones import Tombstones
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.types import Recalled
from orion_recall.text.people.titles import title_names
from orion_recall.values import Hit, MemoryView, Scope, SearchRequest
from tests.samples.recall_fakes import NOW, FakeSource, hit, key, profile, query, sources, view

TEXT = "who founded the maker of the harbour crane?"
CRANE = view("crane", "The harbour crane was made by Umbra Works.", title="Harbour crane")
UMBRA = view("umbra", "It was founded by Ida Miles.", title="Umbra Works")
IDA = view("ida", "She was born there.", title="Ida Miles", kind="world")
SHED = view("shed", "The shed is painted.")
FIRST = (hit("crane", 0.9), hit("shed", 0.2), hit("umbra", 0.1))
LINKS = {"fusion": 0.5, "similarity": 0.0, "links": 0.6, "recency": 0.0}
STEPS = {"fusion": 0.5, "similarity": 0.0, "second_step": 0.25, "recency": 0.0}


class Titles:
    """The memories that are called one of the names."""

    def __init__(self, *memories: MemoryView, fails: bool = False, hangs: bool = False) -> None:
        self.memories, self.fails, self.hangs = memories, fails, hangs
        self.asked: list[tuple[Sequence[str], Scope]] = []
        self.has_some = True

    async def has_titles(self, tenant: str) -> bool:
        return self.has_some

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]:
        self.asked.append((names, scope))
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise SourceError("broken")
        called = {key(one.id): title_names(one.title or "") for one in self.memories}
        return {one: given for one, given in called.items() if not set(given).isdisjoint(names)}


class Keywords(FakeSource):
    """Brings `hits`, and `further` for a question with names that were not in the first."""

    further: tuple[Hit, ...] = ()

    async def search(self, request: SearchRequest) -> Any:
        if request.question.keyword_text.startswith(f"{TEXT} "):
            self.requests.append(request)
            return self.further
        return await super().search(request)


def keywords(hits: Iterable[Hit] = FIRST, further: Iterable[Hit] = ()) -> Keywords:
    made = Keywords("lexical", hits)
    made.further = tuple(further)
    return made


async def ask(
    tokens: TokenCounter, ranking: dict[str, float], *arms: FakeSource, titles: Titles | None = None, **changes: Any
) -> Recalled:
    made = sources(tokens, arms, CRANE, UMBRA, IDA, SHED, titles=titles)
    used: Profile = profile(ranking=ranking, enable_query_expansion=False, source_timeout_ms=200)
    return await recall(query(TEXT, **changes.pop("options", {})), used, replace(made, **changes), now=NOW)


def order(recalled: Recalled) -> list[str]:
    return [item.memory.id for item in recalled.ranked]


def part(recalled: Recalled, name: str) -> dict[str, float]:
    return {item.memory.id: item.parts[name] for item in recalled.ranked if name in item.parts}


async def test_a_memory_whose_title_stands_in_the_best_one_moves_up(tokens: TokenCounter):
    recalled = await ask(tokens, LINKS, FakeSource("vector", FIRST), titles=Titles(UMBRA, CRANE))
    assert order(recalled) == ["crane", "umbra", "shed"]
    # The question names the crane; what the crane's text names has the crane's own score.
    assert part(recalled, "links") == {"crane": 1.0, "umbra": 1.0, "shed": 0.0}
    assert order(await ask(tokens, LINKS | {"links": 0.0}, FakeSource("vector", FIRST))) == [
        "crane",
        "shed",
        "umbra",
    ]


async def test_what_no_arm_found_is_found_by_its_title_and_counts_for_the_arm_that_led_there(tokens: TokenCounter):
    recalled = await ask(tokens, LINKS, FakeSource("vector", FIRST[:2]), titles=Titles(UMBRA))
    assert order(recalled) == ["umbra", "crane", "shed"]
    (umbra,) = [item for item in recalled.ranked if item.memory.id == "umbra"]
    assert (umbra.candidate.best_source, umbra.candidate.fused) == ("vector", 0.0)
    assert "rank_pool" not in recalled.selection.dropped
    assert list(recalled.stage_ms) == ["understand", "search", "fuse", "fetch", "follow", "rank", "select"]


async def test_titles_of_external_memories_lead_to_them_as_own_titles_do(tokens: TokenCounter):
    page = view("wiki:umbra", "It was founded by Ida Miles.", title="Umbra Works")
    graph = FakeSource("rdf", [hit(page.id, 0.1, read=lambda: page)])
    recalled = await ask(tokens, LINKS, FakeSource("vector", FIRST[:2]), graph, titles=Titles(CRANE))
    assert part(recalled, "links") == {"crane": 1.0, "wiki:umbra": 1.0, "shed": 0.0}


async def test_a_text_that_names_many_gives_each_of_them_less(tokens: TokenCounter):
    many = [view(f"m{place}", "x", title=f"Dock {place}") for place in range(39)]
    listing = view("list", f"Umbra Works, {', '.join(one.title or '' for one in many)}")
    made = sources(
        tokens, [FakeSource("vector", [hit("list", 0.9), hit("shed", 0.1)])], listing, SHED, UMBRA, *many
    )
    used = profile(ranking=LINKS, enable_query_expansion=False)
    recalled = await recall(query("docks"), used, replace(made, titles=Titles(UMBRA, *many)), now=NOW)
    shares = part(recalled, "links")
    assert set(shares.values()) == {0.0, 20 / 40}
    assert shares["list"] == 0.0


async def test_links_stay_in_scope_and_what_was_deleted_is_led_to_by_nobody(tokens: TokenCounter):
    titles = Titles(IDA, UMBRA)
    scoped = await ask(
        tokens, LINKS, FakeSource("vector", FIRST[:2]), titles=titles, options={"options": {"kinds": ["world"]}}
    )
    assert [scope.kinds for _, scope in titles.asked] in ([], [("world",)])
    assert order(scoped) == []
    known = Tombstones()
    known.applied_position = lambda: 6
    known.add({key("umbra"): 7})
    recalled = await ask(tokens, LINKS, FakeSource("vector", FIRST[:2]), titles=titles, tombstones=known)
    assert order(recalled) == ["crane", "shed"]
    assert recalled.selection.dropped == {"deleted": 1}


async def test_the_second_search_has_the_names_that_the_first_hits_bring_and_the_question_does_not(
    tokens: TokenCounter,
):
    named = view("crane", CRANE.text, entities=("Harbour Crane", "Umbra Works"))
    arm = keywords(FIRST, [hit("crane", 9.0), hit("ida", 8.0), hit("shed", 5.0), hit("umbra", 1.0)])
    made = sources(tokens, [arm], named, UMBRA, IDA, SHED)
    used = profile(ranking=STEPS, enable_query_expansion=False)
    recalled = await recall(query(TEXT), used, made, now=NOW)
    assert arm.requests[-1].question.keyword_text == f"{TEXT} Umbra Works"
    # The first two gain nothing; the others by score between the best and the last.
    assert part(recalled, "second_step") == {"crane": 0.0, "shed": 0.0, "umbra": 0.0, "ida": 0.875}
    (ida,) = [item for item in recalled.ranked if item.memory.id == "ida"]
    assert ida.candidate.best_source == "lexical"


async def test_hits_that_name_nothing_new_are_followed_by_no_search(tokens: TokenCounter):
    arm = keywords()
    recalled = await ask(tokens, STEPS, arm)
    assert len(arm.requests) == 1
    assert part(recalled, "second_step") == {}


async def test_without_weights_nothing_is_looked_for(tokens: TokenCounter):
    arm, titles = keywords(), Titles(UMBRA)
    recalled = await ask(tokens, {"fusion": 0.5, "recency": 0.0}, arm, titles=titles)
    assert (len(arm.requests), titles.asked) == (1, [])
    assert "follow" not in recalled.stage_ms


@pytest.mark.parametrize("fault", [{"fails": True}, {"hangs": True}])
async def test_titles_that_fail_or_hang_cost_their_links_and_no_more(tokens: TokenCounter, fault: dict[str, bool]):
    began = time.perf_counter()
    recalled = await ask(tokens, LINKS, FakeSource("vector", FIRST), titles=Titles(UMBRA, **fault))
    assert order(recalled) == ["crane", "shed", "umbra"]
    assert recalled.outcome == "ok"
    assert time.perf_counter() - began < 30
    assert not [task for task in asyncio.all_tasks() if "orion_recall/recall/" in repr(task)]


async def test_while_the_index_is_away_it_is_not_asked_for_titles(tokens: TokenCounter):
    titles = Titles(UMBRA)
    away = [FakeSource(name, errors=[SourceError("away")]) for name in ("vector", "lexical")]
    await ask(tokens, LINKS, *away, FakeSource("rdf", FIRST), titles=titles)
    assert titles.asked == []


async def test_titles_are_not_looked_for_where_no_memory_has_one(tokens: TokenCounter):
    titles = Titles(UMBRA)
    titles.has_some = False
    found = await ask(tokens, LINKS, keywords(), titles=titles)
    assert titles.asked == []
    assert part(found, "links") == {}
