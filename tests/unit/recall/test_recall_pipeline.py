from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.errors import InvalidMessage, ModelError, SourceError, TransientSourceError
from orion_recall.memory.replicas.tombstones import Tombstones
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.explain import explained
from orion_recall.recall.search.all_sources import FallbackSource
from orion_recall.recall.search.requests import scope_of
from orion_recall.recall.types import Recalled, Sources
from orion_recall.values import SOURCE_NAMES, MemoryView, SourceName
from tests.samples.recall_fakes import (
    NOW,
    FakeSource,
    Shelf,
    SilentReader,
    Speakers,
    hit,
    profile,
    query,
    sources,
    view,
)

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
    return [FakeSource(name, tuple(hits)) for name in names or SOURCE_NAMES]


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


async def test_nothing_found_is_empty_and_renders_as_the_empty_text(tokens: TokenCounter):
    recalled = await ask(sources(tokens, arms(hits=()), CRANE))
    assert (recalled.outcome, recalled.rendered, ids(recalled)) == ("empty", "", [])


async def test_one_source_failing_is_degraded_and_the_rest_is_answered(tokens: TokenCounter):
    broken = FakeSource("rdf", HITS, errors=[SourceError("broken")])
    recalled = await ask(sources(tokens, [*arms("vector", "lexical", "sql_timeline"), broken], CRANE, ORDER, SHED))
    assert recalled.outcome == "degraded"
    assert ids(recalled) == ["m1", "m2", "m3"]


async def test_every_source_failing_is_failed(tokens: TokenCounter):
    errors: list[Exception] = [SourceError("a"), TransientSourceError("b"), ModelError("c"), SourceError("d")]
    broken = [FakeSource(name, HITS, errors=[error]) for name, error in zip(SOURCE_NAMES, errors, strict=True)]
    recalled = await ask(sources(tokens, broken, CRANE))
    assert (recalled.outcome, ids(recalled)) == ("failed", [])
    assert [report.error for report in recalled.reports] == ["a", "b", "c", "d"]


async def test_a_source_that_the_profile_switched_off_is_not_asked(tokens: TokenCounter):
    given_arms = arms()
    recalled = await ask(
        sources(tokens, given_arms, CRANE, ORDER, SHED),
        profile(rdf_top_k=0, enable_sql_timeline=False, lexical_top_k=0),
    )
    assert [report.status for report in recalled.reports] == ["ok", "off", "off", "off"]
    assert [len(arm.requests) for arm in given_arms] == [1, 0, 0, 0]
    assert recalled.outcome == "ok"


async def test_the_budget_says_how_many_candidates_a_source_may_bring(tokens: TokenCounter):
    for budget, limit in (("low", 100), ("mid", 300), ("high", 1000)):
        (arm,) = given_arms = arms("vector")
        await ask(sources(tokens, given_arms, CRANE), options={"budget": budget})
        assert arm.requests[0].limit == limit


async def test_the_profile_reaches_the_sources(tokens: TokenCounter):
    (arm,) = given_arms = arms("rdf")
    changed = profile(
        min_similarity=0.3, sql_since_minutes=7, graph={"hops": 2, "max_entities": 5, "max_statements": 9}
    )
    await ask(sources(tokens, given_arms, CRANE), changed)
    request = arm.requests[0]
    assert (request.min_score, request.window_minutes) == (0.3, 7)
    assert (request.hops, request.max_entities, request.max_statements) == (2, 5, 9)


async def test_the_next_reader_stands_in_for_one_that_is_away(tokens: TokenCounter):
    readers = (Shelf(error=SourceError("index away")), Shelf(CRANE, ORDER, SHED))
    recalled = await ask(sources(tokens, arms(), readers=readers))
    assert ids(recalled) == ["m1", "m2", "m3"]


async def test_a_reader_that_never_answers_does_not_hold_up_the_next(tokens: TokenCounter):
    made = sources(tokens, arms(), readers=(SilentReader(), Shelf(CRANE, ORDER, SHED)))
    recalled = await recall(query(), profile(), made, now=NOW, timeout_s=0.01)
    assert ids(recalled) == ["m1", "m2", "m3"]


async def test_a_lexicon_that_is_away_costs_the_speaker_only(tokens: TokenCounter):
    made = sources(tokens, arms(), CRANE, ORDER, SHED, lexicon=Speakers(error=SourceError("away")))
    assert (await ask(made)).outcome == "ok"


async def test_a_named_speaker_moves_ahead(tokens: TokenCounter):
    weights = {"fusion": 0.2, "similarity": 0.0, "speaker": 0.8, "recency": 0.0}
    made = sources(tokens, arms(), CRANE, ORDER, SHED, lexicon=Speakers("Ana", "Bo"))
    assert ids(await ask(made, profile(ranking=weights), fragment="what did Ana order?"))[0] == "m2"


def scope_names(**fields: Any) -> dict[str, Any]:
    scope = scope_of(query(**fields), profile(), "acme")
    return {name: getattr(scope, name) for name in ("tenant", "session_id", "user_id") if getattr(scope, name)}


def test_the_shipped_scope_is_the_whole_tenant():
    assert scope_names(session_id="s1") == {"tenant": "acme"}


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


async def test_excluded_memories_are_left_out(tokens: TokenCounter):
    recalled = await ask(sources(tokens, arms(), CRANE, ORDER, SHED), options={"exclude": ["m1", "m3", "m9"]})
    assert ids(recalled) == ["m2"]
    assert recalled.selection.dropped == {"excluded": 2}


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


async def test_memories_that_are_the_active_turn_by_id_are_left_out_beside_those_of_the_options(
    tokens: TokenCounter,
):
    recalled = await ask(
        sources(tokens, arms(), CRANE, ORDER, SHED),
        options={"exclude": ["m1"]},
        exclude={"active_turn_ids": ["m3", 7, "m9"], "active_turn_text": "", "active_turn_ts": None},
    )
    assert ids(recalled) == ["m2"]
    assert recalled.selection.dropped == {"excluded": 2}


@pytest.mark.parametrize("fragment", ["", "  \n\t "])
async def test_without_a_fragment_nothing_is_searched_and_the_answer_is_empty(tokens: TokenCounter, fragment: str):
    asked = arms()
    recalled = await ask(sources(tokens, asked, CRANE, ORDER, SHED), fragment=fragment, intent="the crane")
    assert (recalled.outcome, recalled.rendered, recalled.reports) == ("empty", "", ())
    assert [source.requests for source in asked] == [[]] * len(asked)


async def test_as_of_is_the_querys_clock(tokens: TokenCounter):
    at = datetime.fromtimestamp(NOW, UTC)
    made = sources(tokens, arms(), CRANE, ORDER, SHED)
    moved = await recall(query(options={"as_of": at}), profile(), made, now=NOW + 9e6)
    assert [item.score for item in moved.ranked] == [item.score for item in (await ask(made)).ranked]
    assert [item.score for item in moved.ranked] != [
        item.score for item in (await recall(query(), profile(), made, now=NOW + 9e6)).ranked
    ]


async def test_items_under_the_minimum_score_are_dropped_and_a_query_may_change_it(tokens: TokenCounter):
    made = sources(tokens, arms(), CRANE, ORDER, SHED)
    scores = [item.score for item in (await ask(made)).ranked]
    assert scores == sorted(scores, reverse=True)
    by_profile = await ask(made, profile(min_score=scores[1]))
    assert ids(by_profile) == ["m1", "m2"]
    assert by_profile.selection.dropped == {"below_min_score": 1}
    by_query = await ask(made, profile(min_score=scores[1]), options={"min_score": 0.0})
    assert ids(by_query) == ["m1", "m2", "m3"]


async def test_k_and_max_tokens_win_over_the_profile(tokens: TokenCounter):
    made = sources(tokens, arms(), CRANE, ORDER, SHED)
    assert ids(await ask(made, profile(max_total_items=1), options={"k": 2})) == ["m1", "m2"]
    few = await ask(made, options={"max_tokens": 30})
    assert 0 < tokens.count(few.rendered) <= 30


async def test_a_list_has_the_room_of_its_strategy_and_other_questions_the_profiles_own(tokens: TokenCounter):
    given = profile(max_total_items=1, strategies={"list": {"max_total_items": 3}})
    hits = [hit("m1", 0.9), hit("m2", 0.8), hit("m3", 0.7)]
    made = sources(tokens, arms("vector", hits=hits), CRANE, ORDER, SHED)
    listed = await ask(made, given, fragment="Which cranes do we own?")
    assert (len(listed.selection.items), listed.strategy) == (3, "list")
    plain = await ask(made, given, fragment="Where is the crane?")
    assert (len(plain.selection.items), plain.strategy) == (1, None)
    asked_for_less = await ask(made, given, fragment="Which cranes do we own?", options={"k": 2})
    assert len(asked_for_less.selection.items) == 2


async def test_the_lines_have_the_profiles_style_and_dates_in_the_askers_zone(tokens: TokenCounter):
    met = view("met", "we met yesterday", ts=NOW, speaker="Bo")
    made = sources(tokens, arms("vector", hits=[hit("met", 0.9)]), met)
    asked: dict[str, Any] = {"options": {"timezone": "Pacific/Kiritimati"}}
    assert (
        await ask(made, profile(render={"relative_dates": True}))
    ).rendered == "- [2026-03-01 vector met] Bo: we met yesterday [28 February]"
    short = await ask(made, profile(render={"style": "short", "relative_dates": True}), **asked)
    assert short.rendered == "- 2026-03-02 Bo: we met yesterday [1 March]"
    plain = await ask(made, profile(render={"relative_dates": False}))
    assert plain.rendered == "- [2026-03-01 vector met] Bo: we met yesterday"
    assert explained(short)["render"] == {"style": "short", "relative_dates": True}


async def test_the_order_in_which_sources_answer_does_not_matter(tokens: TokenCounter):
    results: set[tuple[str, tuple[tuple[str, float], ...]]] = set()
    for order in itertools.permutations(SOURCE_NAMES):
        gates = {name: asyncio.Event() for name in order}
        given_arms = [
            FakeSource(name, HITS if name in ("vector", "rdf") else HITS[:2], opened=gates[name]) for name in order
        ]
        asking = asyncio.create_task(ask(sources(tokens, given_arms, CRANE, ORDER, SHED)))
        for name in order:
            gates[name].set()
            for _ in range(5):
                await asyncio.sleep(0)
        recalled = await asking
        results.add((recalled.rendered, tuple((item.memory.id, item.score) for item in recalled.ranked)))
    assert len(results) == 1


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
        for name, hits in zip(SOURCE_NAMES, found_by, strict=True)
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
    assert all(re.match(r"- \[[^\]]+\] ", f"{line} ") for line in recalled.rendered.splitlines())
    scores = [item.scored.score for item in selection.items if item.line]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    shown = {item.scored.memory.id for item in selection.items}
    assert not shown & set(options.get("exclude", ()))
    again = await ask(sources(tokens, list(reversed(given_arms)), *reversed(memories)), narrow, **asked)
    assert again.rendered == recalled.rendered
    assert again.selection.dropped == selection.dropped
