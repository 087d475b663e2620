"""The walk over a conversation: each kind of edge, the bias to the first hits, its settings, and its scope."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from orion_recall.errors import SourceError
from orion_recall.graph.vocabulary import Row, memory_iri
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile.graph_section import ConversationWalk
from orion_recall.recall.pipeline import recall
from orion_recall.recall.search.conversation import Around, ranks
from orion_recall.recall.types import Recalled
from orion_recall.sources.turn_links import TurnLink, TurnLinks
from orion_recall.values import Hit, MemoryView, SearchRequest, ToldTime
from tests.samples.recall_fakes import NOW, FakeSource, hit, key, profile, query, sources, view

TEXT = "where is the compass?"
ASKED = view(
    "asked", "Where did the compass go?", ts=NOW - 500, session_id="s1", speaker="Ana", beside=(key("reply"),)
)
REPLY = view("reply", "Under that flower pot.", ts=NOW - 490, session_id="s1", speaker="Bo", beside=(key("asked"),))
LATER = view("later", "Under what?", ts=NOW - 480, session_id="s1", speaker="Bo")
NAMED = view("named", "It was so.", ts=NOW - 900)
ALIKE = view("alike", "Lantern and rope hang at the door.", ts=NOW - 100)
GEAR = view("gear", "The compass, lantern and rope are gear.", ts=NOW - 300)
OTHER = view("other", "It rained.", ts=NOW - 50)
EVERY = (ASKED, REPLY, LATER, NAMED, ALIKE, GEAR, OTHER)
WALK = {"fusion": 0.5, "similarity": 0.0, "conversation": 0.5, "recency": 0.0}


def walked(
    seeds: Mapping[str, float], *memories: MemoryView, links: Sequence[TurnLink] = (), **settings: Any
) -> dict[str, float]:
    around = Around({key(one.id): one for one in memories}, links)
    walk = ConversationWalk.model_validate(settings)
    found = ranks(around, {key(name): value for name, value in seeds.items()}, walk)
    return {one.id: found.get(key(one.id), 0.0) for one in memories}


def link(source: str, target: str, kind: Any = "next") -> TurnLink:
    return TurnLink(key(source), key(target), kind)


def only(kind: str) -> dict[str, float]:
    return {name: float(name == kind) for name in ("next", "reply", "reference", "topic")}


@pytest.mark.parametrize(
    ("kind", "links", "reached"),
    [
        ("next", [link("reply", "later")], {"reply", "later"}),
        ("reply", [link("reply", "later")], {"reply"}),
        ("reference", [link("named", "asked", "reference")], {"named"}),
        ("topic", [], {"alike", "gear"}),
    ],
)
def test_each_kind_of_edge_leads_to_its_turns_and_to_none_without_its_weight(
    kind: str, links: Sequence[TurnLink], reached: set[str]
):
    seeds = {"gear": 1.0} if kind == "topic" else {"asked": 1.0}
    found = walked(seeds, *EVERY, links=links, weights=only(kind))
    assert {name for name, rank in found.items() if rank > 0} - {"asked"} == reached
    without = walked(seeds, *EVERY, links=links, weights={kind: 0.0})
    assert not any(without[name] for name in reached - {"reply", "gear"})


def test_a_reference_in_words_leads_to_the_turn_of_the_time_that_it_names():
    said = view("said", "The lantern is broken.", ts=NOW - 900, speaker="Bo")
    again = view("again", "The lantern is broken.", ts=NOW - 300, speaker="Bo")
    refers = view(
        "refers", "Like you said, the lantern.", ts=NOW, speaker="Ana", told=(ToldTime(NOW - 950, NOW - 800),)
    )
    found = walked({"refers": 1.0}, refers, again, said, weights=only("reference"))
    assert found["said"] > 0.0 == found["again"]


def test_ranks_are_those_worked_by_hand():
    # asked - reply - later, all next turns, damping 1/2: ranks 7/12, 4/12, 1/12; divided by the highest.
    found = walked(
        {"asked": 0.3},
        ASKED,
        REPLY,
        LATER,
        links=[link("reply", "later")],
        damping=0.5,
        rounds=60,
        weights=only("next"),
    )
    assert found == pytest.approx({"asked": 1.0, "reply": 4 / 7, "later": 1 / 7})


def test_the_walk_begins_at_the_turns_that_match_and_in_proportion():
    links = [link("asked", "reply"), link("named", "later")]
    towards = walked({"asked": 3.0, "named": 1.0}, *EVERY, links=links, weights=only("next"))
    assert towards["asked"] == 1.0
    assert towards["named"] == pytest.approx(1 / 3)
    assert towards["reply"] > towards["later"] > 0.0
    assert towards["other"] == 0.0


def test_damping_and_rounds_say_how_far_it_goes():
    links = [link("asked", "reply"), link("reply", "later")]
    near, far = (walked({"asked": 1.0}, *EVERY, links=links, damping=damping) for damping in (0.2, 0.9))
    assert near["later"] < far["later"]
    one, two = (walked({"asked": 1.0}, *EVERY, links=links, rounds=rounds) for rounds in (1, 2))
    assert one["later"] == 0.0 < two["later"]


def test_turns_without_an_edge_have_no_ranks():
    assert walked({"other": 1.0}, OTHER, NAMED) == {"other": 0.0, "named": 0.0}


class Links:
    """A graph that has these links, one query a step; or fails, or never answers."""

    def __init__(self, *links: TurnLink, error: Exception | None = None, hangs: bool = False) -> None:
        self.links, self.error, self.hangs = links, error, hangs
        self.queries: list[str] = []

    async def select(self, query: str) -> Sequence[Row]:
        self.queries.append(query)
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        rows: list[Row] = []
        for one in self.links:
            away, back = ("after", "before") if one.kind == "next" else ("referred", "referring")
            for node, other, way in ((one.source, one.target, away), (one.target, one.source, back)):
                if f"{memory_iri(node).n3()} " in query:
                    rows.append({"node": str(memory_iri(node)), "memory": str(memory_iri(other)), "way": way})
        return rows


class Keywords(FakeSource):
    """Brings `hits` for the question, and `alike` for the keywords of a memory."""

    alike: tuple[Hit, ...] = ()

    async def search(self, request: SearchRequest) -> Any:
        if "compass" in request.question.keyword_text and "where" in request.question.keyword_text:
            return await super().search(request)
        self.requests.append(request)
        return self.alike


async def ask(
    tokens: TokenCounter,
    *first: Hit,
    links: Links | None = None,
    alike: Sequence[Hit] = (),
    ranking: Mapping[str, float] = WALK,
    memories: Sequence[MemoryView] = EVERY,
    **changes: Any,
) -> tuple[Recalled, Keywords]:
    words = Keywords("lexical", first)
    words.alike = tuple(alike)
    made = sources(tokens, (words, FakeSource("rdf")), *memories)
    made = replace(made, turn_links=None if links is None else TurnLinks(links))
    options = changes.pop("options", {})
    used = profile(ranking=ranking, enable_query_expansion=False, source_timeout_ms=400, **changes)
    return await recall(query(TEXT, **options), used, made, now=NOW), words


def names(recalled: Recalled) -> list[str]:
    return [item.memory.id for item in recalled.ranked]


async def test_turns_that_no_search_finds_are_brought_as_hits_of_the_graph(tokens: TokenCounter):
    found, _ = await ask(
        tokens, hit("asked", 0.9), links=Links(link("asked", "reply"), link("named", "asked", "reference"))
    )
    assert set(names(found)) == {"asked", "reply", "named"}
    reply = next(item for item in found.ranked if item.memory.id == "reply")
    assert reply.candidate.best_source == "rdf"
    assert 0.0 < reply.parts["conversation"] <= 1.0
    assert len(found.selection.items) == 3


async def test_turns_of_the_same_topic_are_searched_for_by_the_keywords_of_the_first_hits(tokens: TokenCounter):
    found, words = await ask(tokens, hit("gear", 0.9), links=Links(), alike=[hit("alike", 0.5), hit("other", 0.4)])
    assert names(found) == ["gear", "alike"], "what shares fewer than two keywords is not of the topic"
    assert [one.question.keyword_text for one in words.requests[1:]] == ["compass gear lantern rope"]
    _, words = await ask(tokens, hit("gear", 0.9), links=Links(), graph={"conversation": {"topic_searches": 0}})
    assert len(words.requests) == 1


@pytest.mark.parametrize("changes", [{"ranking": {**WALK, "conversation": 0.0}}, {"rdf_top_k": 0}])
async def test_without_its_weight_or_the_graph_source_there_is_no_walk(
    tokens: TokenCounter, changes: dict[str, Any]
):
    links = Links(link("asked", "reply"))
    found, words = await ask(tokens, hit("asked", 0.9), links=links, **changes)
    assert names(found) == ["asked"]
    assert links.queries == []
    assert len(words.requests) == 1


@pytest.mark.parametrize(
    "links", [lambda: None, lambda: Links(error=SourceError("away")), lambda: Links(link("asked", "asked"))]
)
async def test_without_the_graph_neighbouring_turns_among_the_candidates_are_walked_to(
    tokens: TokenCounter, links: Callable[[], Links | None]
):
    found, _ = await ask(tokens, hit("asked", 0.9), hit("other", 0.8), hit("reply", 0.1), links=links())
    parts = {item.memory.id: item.parts["conversation"] for item in found.ranked}
    assert parts["reply"] > parts["other"], "though it was found last"
    assert found.outcome == "ok"


async def test_a_graph_that_hangs_costs_the_walk_alone(tokens: TokenCounter):
    async with asyncio.timeout(60):
        found, _ = await ask(tokens, hit("asked", 0.9), links=Links(hangs=True))
    assert names(found) == ["asked"]
    assert "conversation" not in found.ranked[0].parts


async def test_nothing_outside_the_querys_scope_is_brought_or_leads_further(tokens: TokenCounter):
    """The graph here does not keep to the scope: what it and the keyword source bring is checked again."""
    links = Links(link("asked", "reply"), link("reply", "later"), link("later", "named"))
    inside = [ASKED._replace(user_id="u1", beside=()), LATER._replace(user_id="u1"), NAMED._replace(user_id="u1")]
    options = {"options": {"scope": "user", "user": "u1"}}
    found, words = await ask(
        tokens,
        hit("asked", 0.9),
        links=links,
        alike=[hit("reply", 0.5)],
        memories=[*inside, REPLY._replace(user_id="u2")],
        options=options,
        graph={"conversation": {"steps": 3}},
    )
    assert names(found) == ["asked"]
    assert {request.scope.user_id for request in words.requests} == {"u1"}
    assert all("u1" in one for one in links.queries)


async def test_excluded_turns_are_not_brought(tokens: TokenCounter):
    links = Links(link("asked", "reply"))
    found, _ = await ask(tokens, hit("asked", 0.9), links=links, options={"options": {"exclude": ["reply"]}})
    assert names(found) == ["asked"]


async def test_memories_of_external_stores_are_no_turns(tokens: TokenCounter):
    links = Links(link("asked", "reply"))
    found, _ = await ask(tokens, hit("asked", 0.9, read=lambda: ASKED), links=links)
    assert names(found) == ["asked"]
    assert links.queries == []


async def test_the_walk_begins_at_as_many_turns_as_the_profile_says(tokens: TokenCounter):
    links = Links(link("other", "later"), link("asked", "reply"))
    first = (hit("asked", 0.9), hit("other", 0.8), hit("gear", 0.1))
    both, _ = await ask(tokens, *first, links=links)
    one, _ = await ask(tokens, *first, links=links, graph={"conversation": {"seeds": 1}})
    assert set(names(both)) - set(names(one)) == {"later"}
