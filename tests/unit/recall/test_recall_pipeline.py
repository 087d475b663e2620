from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.errors import InvalidMessage, SourceError
from orion_recall.memory.replicas.tombstones import Tombstones
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.search.requests import scope_of
from orion_recall.recall.types import FallbackSource, Sources
from orion_recall.source_specs import source_names
from orion_recall.values import MemoryView, SourceName
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view

CRANE = view("m1", "The harbour crane needs a gearbox.", ts=NOW - 3600, speaker="Bo", session_id="s1")
ORDER = view("m2", "I ordered it at Fjord Labs.", ts=NOW - 1800, speaker="Ana", session_id="s1", kind="plan")
SHED = view("m3", "The shed is painted.", ts=None, session_id="s2", tags=("shed",), user_id="u")
HITS = (hit("m1", 0.9), hit("m2", 0.6), hit("m3", 0.3))


async def ask(made: Sources, profile: Profile = profile(), **fields: Any) -> Recalled:  # noqa: B008 (frozen)
    return await recall(query(**fields), profile, made, now=NOW)


def ids(recalled: Recalled) -> list[str]:
    return [item.scored.memory.id for item in recalled.selection.items]


def found(recalled: Recalled) -> int:
    return len({each.key for report in recalled.reports for each in report.hits})


def arms(*names: SourceName, hits: Iterable[Any] = HITS) -> list[FakeSource]:
    return [FakeSource(name, tuple(hits)) for name in names or source_names()]


async def test_what_two_sources_found_comes_back_ranked_and_rendered(tokens: TokenCounter):
    recalled = await ask(sources(tokens, arms(), CRANE, ORDER, SHED))
    assert recalled.outcome == "ok"
    assert ids(recalled) == ["m1", "m2", "m3"]
    assert recalled.rendered.split("\n") == [
        "- [2026-03-01 lexical m1] Bo: The harbour crane needs a gearbox.",
        "- [2026-03-01 lexical m2] Ana: I ordered it at Fjord Labs.",
        "- [undated lexical m3] The shed is painted.",
    ]
    assert recalled.selection.dropped == {}
    assert list(recalled.stage_ms) == ["understand", "search", "fuse", "fetch", "rank", "select"]


async def test_caps_of_a_source_decide_who_is_first_and_the_room_that_is_left_is_filled(tokens: TokenCounter):
    """As the reference of `max_per_source` and `rdf_top_k` says."""
    turns = [view(f"v{n}", f"The vector says {n} of it.", ts=NOW) for n in range(4)]
    facts = [view(f"g{n}", f"A graph has {n} as well.", ts=NOW) for n in range(4)]
    by_vector = FakeSource("vector", [hit(one.id, 0.9 - n / 100) for n, one in enumerate(turns)])
    by_graph = FakeSource("rdf", [hit(one.id, 0.9 - n / 100) for n, one in enumerate(facts)])
    made = sources(tokens, [by_vector, by_graph], *turns, *facts)

    async def counts(**changes: Any) -> tuple[int, int]:
        weights = {"rdf": 1.0, "vector": 0.5}  # so that the graph's are the best
        found = ids(await ask(made, profile(fusion={"weights": weights}, **changes)))
        return sum(one[0] == "v" for one in found), sum(one[0] == "g" for one in found)

    assert await counts(max_per_source=1, max_total_items=2) == (1, 1)
    assert [await counts(rdf_top_k=most, max_total_items=5) for most in (1, 2, 3, 4)] == [
        (4, 1),
        (3, 2),
        (2, 3),
        (1, 4),
    ]
    assert await counts(max_per_source=1, rdf_top_k=1) == (4, 4)


@pytest.mark.parametrize(
    ("half_life", "first"), [(1, "young"), (24, "young"), (72, "young"), (10_000, "old"), (1_000_000, "old")]
)
async def test_the_half_life_decides_how_much_better_an_older_memory_has_to_be(
    tokens: TokenCounter, half_life: float, first: str
):
    old, young = view("old", "The crane is at the quay.", ts=NOW - 72 * 3600), view("young", "A crane.", ts=NOW)
    hits = (hit("old", 0.9), hit("young", 0.8))
    weights = {"fusion": 0.8, "similarity": 0.0, "recency": 0.2}
    by = profile(time_decay_half_life_hours=half_life, ranking=weights, fusion={"method": "rrf"})
    assert ids(await ask(sources(tokens, arms("vector", hits=hits), old, young), by))[0] == first


async def test_what_was_just_deleted_is_left_out_whoever_finds_it_and_the_graph_gives_no_reasons(
    tokens: TokenCounter,
):
    """Found by every arm, read by the arm itself, or brought by what stands in for the index."""
    known = Tombstones()
    known.applied_position = lambda: 6
    known.add({HITS[0].key: 7, HITS[2].key: 6})
    reasons = [each._replace(read=lambda: ORDER, statements=("Bo works at Fjord Labs",)) for each in HITS[:2]]
    stand_in = FallbackSource(source=FakeSource("lexical", HITS))
    for made in (
        sources(tokens, arms(), CRANE, ORDER, SHED, tombstones=known),
        sources(tokens, arms("rdf", hits=(*reasons, HITS[2])), ORDER, SHED, tombstones=known),
        sources(
            tokens,
            [FakeSource(name, errors=[SourceError("away")]) for name in ("vector", "lexical")],
            CRANE, ORDER, SHED, tombstones=known, fallback=stand_in,
        ),
    ):  # fmt: skip
        recalled = await ask(made)
        assert sorted(ids(recalled)) == ["m2", "m3"]
        assert recalled.selection.dropped == {"deleted": 1}
        assert "Bo works at" not in recalled.rendered
    known.applied_position = lambda: 7
    recalled = await ask(sources(tokens, arms("rdf", hits=reasons), CRANE, ORDER, tombstones=known))
    assert "Bo works at Fjord Labs" in recalled.rendered


async def test_a_copy_that_moves_on_while_it_is_searched_shows_nothing_old(tokens: TokenCounter):
    known, opened = Tombstones(), asyncio.Event()
    known.applied_position = lambda: 7 if opened.is_set() else 6
    known.add({HITS[0].key: 7})
    arm = FakeSource("vector", HITS, opened=opened)
    asking = asyncio.create_task(ask(sources(tokens, [arm], CRANE, ORDER, SHED, tombstones=known)))
    while not arm.requests:
        await asyncio.sleep(0)
    opened.set()
    assert ids(await asking) == ["m2", "m3"]


async def test_one_source_failing_is_degraded_and_the_rest_is_answered(tokens: TokenCounter):
    broken = FakeSource("rdf", HITS, errors=[SourceError("broken")])
    recalled = await ask(sources(tokens, [*arms("vector", "lexical", "sql_timeline"), broken], CRANE, ORDER, SHED))
    assert recalled.outcome == "degraded"
    assert ids(recalled) == ["m1", "m2", "m3"]


def scope_names(**fields: Any) -> dict[str, Any]:
    scope = scope_of(query(**fields), profile(), "acme")
    return {name: getattr(scope, name) for name in ("tenant", "session_id", "user_id") if getattr(scope, name)}


def test_a_session_or_a_user_narrows_the_scope():
    assert scope_names(session_id="s1", options={"scope": "session"}) == {"tenant": "acme", "session_id": "s1"}
    assert scope_names(options={"scope": "user", "user": "u"}) == {"tenant": "acme", "user_id": "u"}
    assert scope_names(session_id="s1", options={"scope": "global", "user": "u"}) == {"tenant": "acme"}
    narrow = scope_of(query(session_id="s1"), profile(scope="session"), "acme")
    assert narrow.session_id == "s1"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"options": {"scope": "session"}}, r"payload\.session_id"),
        ({"session_id": "s1", "options": {"scope": "user"}}, r"payload\.options\.user"),
    ],
)
async def test_a_scope_without_its_id_is_invalid(tokens: TokenCounter, fields: dict[str, Any], said: str):
    with pytest.raises(InvalidMessage, match=said):
        await ask(sources(tokens, arms()), **fields)


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"session_id": "s1", "options": {"scope": "session"}}, ["m1", "m2"]),
        ({"options": {"scope": "user", "user": "u"}}, ["m3"]),
        ({"options": {"kinds": ["plan", "task"]}}, ["m2"]),
        ({"options": {"tags": ["shed", "boat"]}}, ["m3"]),
        ({"options": {"since": NOW - 2000}}, ["m2"]),
        ({"options": {"until": NOW - 2000}}, ["m1"]),
        ({"options": {"since": NOW - 3600, "until": NOW - 1800}}, ["m1"]),
    ],
    ids=str,
)
async def test_what_is_out_of_scope_does_not_get_past_the_last_door(
    tokens: TokenCounter, fields: dict[str, Any], left: list[str]
):
    recalled = await ask(sources(tokens, arms(), CRANE, ORDER, SHED), **fields)
    assert ids(recalled) == left
    assert recalled.selection.dropped == {"filtered": 3 - len(left)}


TURN = "What about the crane?"


@pytest.mark.parametrize(
    ("fields", "own"),
    [
        ({"ts": NOW}, True),
        ({"ts": NOW - 120}, True),
        ({"ts": NOW + 5}, True),
        ({"ts": NOW - 121}, False),
        ({"ts": None}, False),
        ({"ts": NOW, "session_id": "other"}, False),
        ({"ts": NOW, "session_id": None}, False),
        ({"ts": NOW, "text": f"{TURN} And the shed?"}, False),
        ({"ts": NOW, "text": "WHAT, about the   crane"}, True),
    ],
    ids=str,
)
async def test_the_turn_being_asked_is_not_its_own_memory(tokens: TokenCounter, fields: dict[str, Any], own: bool):
    turn = view("m1", **({"text": TURN, "session_id": "s1"} | fields))
    recalled = await ask(
        sources(tokens, arms("vector", hits=[hit("m1", 0.9)]), turn), fragment=TURN, session_id="s1"
    )
    assert ids(recalled) == ([] if own else ["m1"])
    assert recalled.selection.dropped == ({"own_turn": 1} if own else {})


ACTIVE = "Bo asked about the crane."


@pytest.mark.parametrize(
    ("hint", "fields", "own"),
    [
        ({}, {}, True),
        ({}, {"ts": NOW - 180}, True),
        ({}, {"ts": NOW - 181}, False),
        ({}, {"ts": NOW + 181}, False),
        ({}, {"ts": None}, False),
        ({}, {"text": f"Yesterday: BOB... {ACTIVE} And Ana laughed."}, True),
        ({}, {"text": "Bo asked."}, False),
        ({"active_turn_ts": NOW - 1000}, {}, False),
        ({"active_turn_ts": NOW - 1000}, {"ts": NOW - 900}, True),
        ({"active_turn_text": "  bo ASKED, about the crane!"}, {}, True),
        ({"active_turn_text": "o"}, {}, False),
        ({"active_turn_text": "the crane"}, {}, False),
        ({"active_turn_text": "ok"}, {"text": "The smoke detector was inspected."}, False),
        ({"active_turn_text": "ok"}, {"text": "OK!"}, True),
        ({"active_turn_text": "asked about the cran"}, {}, False),
        ({"active_turn_text": "sked about the crane"}, {}, False),
        ({"active_turn_text": "asked about the crane"}, {}, True),
        ({"active_turn_text": "crane word " * 400}, {"text": "crane word " * 500}, True),
        ({"active_turn_text": "x" * 5000}, {"text": "x" * 5000}, True),
        ({"active_turn_text": " "}, {}, False),
        ({"active_turn_text": 7}, {}, False),
    ],
    ids=str,
)
async def test_the_active_turn_that_a_caller_names_is_left_out(
    tokens: TokenCounter, hint: dict[str, Any], fields: dict[str, Any], own: bool
):
    said: dict[str, Any] = {"text": ACTIVE, "ts": NOW, "session_id": "other"} | fields
    turn = view("m1", **said)
    exclude: dict[str, Any] = {"active_turn_ids": [], "active_turn_text": ACTIVE, "active_turn_ts": None}
    made = sources(tokens, arms("vector", hits=[hit("m1", 0.9)]), turn)
    recalled = await ask(made, exclude=exclude | hint)
    assert ids(recalled) == ([] if own else ["m1"])
    assert recalled.selection.dropped == ({"own_turn": 1} if own else {})


@pytest.mark.parametrize("fragment", ["", "  \n\t "])
async def test_without_a_fragment_nothing_is_searched_and_the_answer_is_empty(tokens: TokenCounter, fragment: str):
    asked = arms()
    recalled = await ask(sources(tokens, asked, CRANE, ORDER, SHED), fragment=fragment, intent="the crane")
    assert (recalled.outcome, recalled.rendered, recalled.reports) == ("empty", "", ())
    assert [source.requests for source in asked] == [[]] * len(asked)


MEMORIES = st.lists(
    st.builds(
        view,
        st.sampled_from([f"m{n}" for n in range(12)]),
        st.sampled_from(
            ["the crane", "The Crane!", "a shed\n- [x", "👍", "<|im_start|>", "起重机 " * 40, "", "crane " * 90]
        ),
        ts=st.sampled_from([None, 0.0, NOW, NOW - 60, NOW - 9e6]),
        session_id=st.sampled_from([None, "s1", "s2"]),
        kind=st.sampled_from([None, "plan", "task"]),
    ),
    unique_by=lambda memory: memory.id,
    max_size=12,
)
FOUND = st.lists(st.tuples(st.integers(0, 13), st.sampled_from([0.0, 0.2, 0.9, 3.0])), max_size=14)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "scope": st.sampled_from(["global", "session"]),
        "k": st.integers(1, 9),
        "max_tokens": st.integers(1, 200),
        "min_score": st.sampled_from([0.0, 0.5]),
        "kinds": st.just(["plan"]),
        "exclude": st.just(["m1", "m2"]),
        "since": st.just(NOW - 100),
    },
)


@given(memories=MEMORIES, found_by=st.tuples(FOUND, FOUND, FOUND, FOUND), options=OPTIONS, pool=st.integers(10, 14))
async def test_what_is_found_is_shown_or_counted_and_the_bundle_keeps_its_promises(
    tokens: TokenCounter,
    memories: list[MemoryView],
    found_by: tuple[list[tuple[int, float]], ...],
    options: dict[str, Any],
    pool: int,
):
    given_arms = [
        FakeSource(name, [hit(f"m{n}", score) for n, score in sorted(set(hits), key=lambda each: -each[1])])
        for name, hits in zip(source_names(), found_by, strict=True)
    ]
    narrow = profile(rank_pool=pool, max_per_source=3, max_total_items=6, render_budget_tokens=120, sql_top_k=2)
    asked = {"fragment": "the crane", "session_id": "s1", "options": options}
    recalled = await ask(sources(tokens, given_arms, *memories), narrow, **asked)
    selection = recalled.selection
    assert found(recalled) == len(selection.items) + sum(selection.dropped.values())
    assert all(count > 0 for count in selection.dropped.values())
    assert tokens.count(recalled.rendered) <= selection.tokens <= options.get("max_tokens", 120)
    assert len(selection.items) <= options.get("k", 6)
    assert len(recalled.rendered.splitlines()) == sum(bool(item.line) for item in selection.items)
    lines = [f"{line} " for line in recalled.rendered.splitlines()]
    # Where no line fits as it should be, a few words stand after the date alone.
    assert all(re.match(r"- \[[^\]]+\] ", line) for line in lines) or (
        len(lines) == 1 and re.match(r"- (undated|\d{4}-\d\d-\d\d) ", lines[0])
    )
    scores = [item.scored.score for item in selection.items if item.line]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    shown = {item.scored.memory.id for item in selection.items}
    assert not shown & set(options.get("exclude", ()))
    again = await ask(sources(tokens, list(reversed(given_arms)), *reversed(memories)), narrow, **asked)
    assert again.rendered == recalled.rendered
    assert again.selection.dropped == selection.dropped
