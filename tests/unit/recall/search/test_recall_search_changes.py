from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.explain import explained
from orion_recall.recall.search.changes import order_of_changes, tells_change
from orion_recall.recall.types import Recalled
from orion_recall.values import Interval, MemoryView, SuccessionLink, ToldTime
from tests.samples.recall_fakes import FakeSource, hit, key, profile, query, scored, sources, view

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC).timestamp()  # a Wednesday
DAY = 86_400.0
MAY = Interval(NOW - 47 * DAY, NOW - 16 * DAY, "period", "May")


def link(name: str, days: float, sure: float = 0.9) -> SuccessionLink:
    return SuccessionLink(key(name), name, sure, NOW - days * DAY, "rule", "shift: both say choir")


def said(name: str, text: str, days: float, **fields: Any) -> MemoryView:
    return view(name, text, ts=NOW - days * DAY, session_id=name, **fields)


CHOIR = said("choir", "Choir is on Mondays.", 80, succeeded_by=(link("moved", 30),))
MOVED = said("moved", "The choir has a room of its own on Tuesdays.", 30, succeeds=(link("choir", 30),))
VEGAN = said("vegan", "I'm vegan now, no more cheese.", 25)
HAM = said("ham", "Ham again at Otto's, and a lot of it.", 28)
LATER = said("later", "We've moved to Fern Street.", 3)


async def ask(tokens: TokenCounter, text: str, *memories: MemoryView) -> Recalled:
    found = FakeSource("vector", [hit(one.id, 0.9 - place / 100) for place, one in enumerate(memories)])
    made = sources(tokens, [found], *memories)
    return await recall(query(text), profile(source_timeout_ms=30_000), made, now=NOW)


def ids(recalled: Recalled) -> list[str]:
    return [item.scored.memory.id for item in recalled.selection.items]


@pytest.mark.parametrize("text", ["What changed in May?", "Were there any changes in May?"])
async def test_what_changed_in_a_time_is_its_changes_in_order_each_after_what_it_succeeds(
    tokens: TokenCounter, text: str
):
    recalled = await ask(tokens, text, VEGAN, HAM, LATER, MOVED, CHOIR)
    assert ids(recalled) == ["choir", "moved", "vegan"]
    assert (recalled.selection.dropped["no_change"], recalled.selection.dropped["other_time"]) == (1, 1)
    (why,) = explained(recalled)["why"]
    assert why.endswith(
        ", changes of it, as far as they are taken as such, and what they change, in the order of the changes."
    )


async def test_a_time_without_a_change_is_recapped_as_a_whole(tokens: TokenCounter):
    plain = MOVED._replace(succeeds=())
    recalled = await ask(tokens, "What changed in May?", HAM, LATER, plain)
    assert ids(recalled) == ["moved", "ham"]
    (why,) = explained(recalled)["why"]
    assert "of it, in the order of time, since none is taken as a change" in why


async def test_a_likeness_is_no_succession(tokens: TokenCounter):
    unsure = MOVED._replace(succeeds=(link("choir", 30, sure=0.2),))
    assert ids(await ask(tokens, "What changed in May?", VEGAN, unsure, CHOIR)) == ["vegan"]


async def test_what_changed_in_something_is_asked_of_that(tokens: TokenCounter):
    recalled = await ask(tokens, "What changed in the choir in May?", CHOIR, MOVED, HAM)
    assert recalled.understood is not None
    assert not recalled.understood.of_changes
    assert "choir" in ids(recalled)


def test_of_a_chain_what_was_before_stands_before_the_first_change_of_the_time():
    chain = [
        scored("a", ts=NOW - 90 * DAY),
        scored("b", ts=NOW - 60 * DAY, succeeds=(link("a", 60),)),
        scored("c", ts=NOW - 20 * DAY, succeeds=(link("b", 20), link("a", 20))),
        scored("d", ts=NOW - 40 * DAY),
    ]
    places = order_of_changes(chain, [MAY], now=NOW, least=0.5)
    assert sorted(places, key=places.__getitem__) == [key(name) for name in ("d", "a", "b", "c")]


def test_a_likeness_decides_no_place_among_changes():
    chain = [
        scored("price", ts=NOW - 90 * DAY),
        scored("trip", ts=NOW - 70 * DAY),
        scored("called-off", ts=NOW - 40 * DAY, succeeds=(link("trip", 40), link("price", 40, sure=0.36))),
        scored("garden", ts=NOW - 30 * DAY),
        scored("raised", ts=NOW - 20 * DAY, succeeds=(link("price", 20),)),
    ]
    places = order_of_changes(chain, [MAY], now=NOW, least=0.5)
    expected = [key(name) for name in ("trip", "called-off", "garden", "price", "raised")]
    assert sorted(places, key=places.__getitem__) == expected


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("The rent goes up to 985.", True),
        ("Choir has moved to Tuesdays.", True),
        ("From 2 November the bins are collected on Tuesdays.", True),
        ("The bins are collected on Tuesdays.", False),
        ("Has the choir moved to Tuesdays?", False),
        ("I'd love to have moved to Fern Street one day.", False),
    ],
)
def test_a_text_tells_a_change(text: str, tells: bool):
    november = ToldTime(NOW + 138 * DAY, NOW + 139 * DAY)
    assert tells_change(said("one", text, 1, told=(november,))) is tells


def test_chatter_tells_no_change():
    assert not tells_change(said("one", "I'm off now!", 1, chatter=True))
