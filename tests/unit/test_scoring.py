"""The parts of a score: what each measures, in [0, 1]."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pytest

from orion_recall.profile import Profile
from orion_recall.profile.sections import RankingWeights
from orion_recall.recall.ranking.score import score_candidates
from orion_recall.scoring.candidates import Candidate, Column, QueryFacts
from orion_recall.scoring.intervals import (
    is_told_of,
    overlap,
    overlaps,
    proximity,
    tells_of,
    told_ranges,
    told_share,
)
from orion_recall.scoring.parts import PARTS, part_columns
from orion_recall.values import Interval, MemoryView, QuestionTime, SourceName, TimeOf, ToldTime
from tests.samples.recall_fakes import NOW, key, profile, view

FOUNDING = {"fusion": 0.0, "similarity": 0.6, "overlap": 0.2, "recency": 0.15, "evidence": 0.05}


def found(
    name: str, cosine: float, *, statements: tuple[str, ...] = (), **fields: object
) -> tuple[Candidate, MemoryView]:
    made = Candidate(key=key(name), fused=0.5, scores={"vector": cosine}, statements=statements)
    return made, view(name, **fields)  # pyright: ignore[reportArgumentType]


def test_the_founding_formula_is_a_profile():
    both = found("both", 0.5, entities=("Ana Miles", "Fjord Labs"), ts=NOW)
    one = found("one", 0.9, entities=("Bo",), statements=("Bo knows Ana",), ts=NOW - 72 * 3600)
    none = found("none", 0.4, ts=NOW)
    facts = QueryFacts(now=NOW, entities=("Ana", "Fjord Labs"), evidence={key("both"): 31.0, key("one"): 1.0})
    used = profile(ranking=FOUNDING, time_decay_half_life_hours=72)
    scored = {item.memory.id: item for item in score_candidates([both, one, none], used, facts)}
    assert scored["both"].score == pytest.approx(0.6 * 0.5 + 0.2 * 1.0 + 0.15 * 1.0 + 0.05 * 1.0)
    assert scored["one"].score == pytest.approx(0.6 * 0.9 + 0.2 * 0.5 + 0.15 * 0.5 + 0.05 * 0.2)
    assert scored["none"].score == pytest.approx(0.6 * 0.4 + 0.2 * 0.0 + 0.15 * 1.0 + 0.05 * 0.0)
    assert scored["one"].parts["overlap"] == 0.5


Pair = tuple[Candidate, MemoryView]


def found_at(
    name: str, fused: float = 0.5, scores: dict[SourceName, float] | None = None, **fields: object
) -> Pair:
    return Candidate(key=key(name), fused=fused, scores=scores or {}), view(name, **fields)  # pyright: ignore[reportArgumentType]


def weighing(*parts: str) -> Profile:
    """A profile in which these parts count, and the fused score."""
    return profile(ranking={"fusion": 1.0, **dict.fromkeys(parts, 1.0)})


def parts_of(candidates: Sequence[Pair], used: Profile, **facts: Any) -> dict[str, Column]:
    return part_columns(
        candidates,
        QueryFacts(now=NOW, **facts),
        used.ranking.model_dump(),
        half_life_hours=used.half_life_hours,
        recency_minimum=used.recency_floor,
    )


def made(part: str, *candidates: Pair) -> dict[str, float | None]:
    """The part of each candidate by id; nothing when there is no such part."""
    column = parts_of(candidates, weighing(part)).get(part, ())
    return {memory.id: value for (_, memory), value in zip(candidates, column, strict=bool(column))}


def test_session_is_the_best_fused_score_among_the_candidates_of_the_session():
    turns = [
        found_at("best", 0.8, session_id="one"), found_at("beside", 0.2, session_id="one"),
        found_at("other", 0.4, session_id="two"), found_at("alone", 0.6), found_at("alone too", 0.2),
    ]  # fmt: skip
    assert made("session", *turns) == pytest.approx(
        {"best": 1.0, "beside": 1.0, "other": 0.5, "alone": 0.75, "alone too": 0.25}
    )


def test_role_is_that_of_a_person_where_the_question_is_about_the_one_who_asks():
    turns = [
        found_at("own", speaker="user"),
        found_at("answer", speaker="Assistant"),
        found_at("known", speaker="Juno", assistant=True),
        found_at("nobody"),
    ]
    weighed = weighing("role")
    assert list(parts_of(turns, weighed, is_own=True)["role"]) == [1.0, 0.0, 0.0, 1.0]
    assert "role" not in parts_of(turns, weighed), "what agents found is asked for without a word of oneself"
    assert "role" not in parts_of(turns[1:3], weighed, is_own=True), "where all is an assistant's it tells nothing"


def test_what_the_index_does_not_hold_has_no_part_that_the_index_alone_could_give():
    own = found_at("own", 0.9, {"vector": 0.8, "lexical": 3.0})
    farther = found_at("farther", 0.5, {"vector": 0.4, "lexical": 1.0})
    mapped, timed_out = found_at("mapped", 0.8, {"vector": 0.9}), found_at("timed out", 0.1)
    columns = parts_of(
        [own, farther, mapped, timed_out],
        weighing("words", "meaning", "session", "late"),
        late={key("own"): 0.5, key("mapped"): 1.0},
        unindexed=frozenset((key("mapped"), key("timed out"))),
    )
    assert columns["words"] == [1.0, 0.0, None, None]
    assert columns["meaning"] == [pytest.approx(0.8), 0.0, 1.0, None]
    assert columns["similarity"] == [0.8, 0.4, 0.9, None]
    assert columns["neighbour"] == [0.4, 0.4, None, None], "no farther than the index's own farthest"
    assert columns["session"][2] == pytest.approx((0.8 / 0.9 + 1) / 2), "it is a session of its own, like any other"
    assert columns["session"][3] == pytest.approx(0.1 / 0.9), "how it was found is all that is known"


def test_every_part_is_in_the_unit_interval_for_scores_of_any_kind():
    dice = random.Random(7)
    candidates = [
        found_at(
            str(place),
            dice.random(),
            {"lexical": dice.uniform(0, 40), "vector": dice.uniform(-1, 1)} if place % 3 else {},
            session_id=str(place % 5),
            ts=NOW - dice.uniform(0, 1e8),
        )
        for place in range(40)
    ]
    every = weighing(*RankingWeights.model_fields)
    near = {key(str(place)): dice.uniform(-1, 1) for place in range(40)}
    columns = parts_of(candidates, every, named_speaker="Ana", similarities=near)
    assert set(columns) >= {"fusion", "words", "meaning", "session", "similarity", "neighbour"}
    assert all(value is not None and 0 <= value <= 1 for column in columns.values() for value in column)


def test_the_ranking_section_of_a_profile_has_the_parts_of_the_table_and_their_weights():
    assert list(RankingWeights.model_fields) == [part.name for part in PARTS]
    assert RankingWeights().model_dump() == {part.name: part.weight for part in PARTS}
    assert len({part.name for part in PARTS}) == len(PARTS)


DAY = 86_400.0
WEEK = Interval(start=10 * DAY, end=17 * DAY, kind="relative", words="last week")


@pytest.mark.parametrize(
    ("start", "until", "share"),
    [
        (10 * DAY, None, 1.0),
        (17 * DAY - 1, None, 1.0),
        (17 * DAY, None, 0.9),
        (18 * DAY - 1, None, 0.9),
        (18 * DAY, None, 0.0),
        (9 * DAY, None, 0.9),
        (9 * DAY - 1, None, 0.0),
        (5 * DAY, 12 * DAY, 1.0),
        (5 * DAY, 30 * DAY, 1.0),
        (5 * DAY, 9.5 * DAY, 0.9),
        (12 * DAY, 5 * DAY, 1.0),
    ],
)
def test_inside_counts_whole_and_a_day_beside_it_nearly(start: float, until: float | None, share: float):
    assert overlap([WEEK], start, until) == share


def test_a_day_that_is_named_exactly_is_that_day_alone_where_something_is_of_it():
    day = Interval(10 * DAY, 11 * DAY, "date", "on the tenth", exact=True)
    beside, on_it, far = (11.5 * DAY, None), (10.5 * DAY, None), (20 * DAY, None)
    assert overlaps([day], [beside, on_it, far]) == [0.0, 1.0, 0.0]
    assert overlaps([day], [beside, far]) == [0.9, 0.0]
    assert overlaps([day._replace(exact=False)], [beside, on_it, far]) == [0.9, 1.0, 0.0]
    assert overlaps([day], [(None, None), on_it]) == [None, 1.0]


def test_proximity_is_one_inside_and_halves_with_each_length_of_the_interval() -> None:
    week = (Interval(start=100 * DAY, end=107 * DAY, kind="relative", words="that week"),)
    assert proximity(week, 103 * DAY) == 1.0
    assert proximity(week, 99 * DAY, 101 * DAY) == 1.0
    assert proximity(week, 93 * DAY) == pytest.approx(0.5)
    assert proximity(week, 121 * DAY) == pytest.approx(0.25)
    assert proximity(week, None) is None


NOW_OF_PARTS = 100 * DAY + 0.5 * DAY
YESTERDAY = Interval(99 * DAY, 100 * DAY, "relative", "yesterday", exact=True)


def parts(of: TimeOf, *memories: MemoryView, used: Profile | None = None) -> dict[str, tuple[object, object]]:
    facts = QueryFacts(now=NOW_OF_PARTS, time=QuestionTime(intervals=(YESTERDAY,), of=of))
    made = score_candidates(
        [(Candidate(key=key(one.id), fused=0.5), one) for one in memories],
        used or profile(ranking={"fusion": 0.5, "time": 1.0, "told": 1.0}),
        facts,
    )
    return {item.memory.id: (item.parts.get("time"), item.parts.get("told")) for item in made}


THEN = view("then", ts=99.5 * DAY)
REPORT = view("report", ts=100.2 * DAY, told=(ToldTime(99 * DAY, 100 * DAY),))
PLAN = view("plan", ts=90 * DAY, told=(ToldTime(99 * DAY, 100 * DAY),))
OTHER = view("other", ts=50 * DAY)


def test_what_happened_was_said_then_or_told_later_and_counts_once():
    assert parts("both", THEN, REPORT, PLAN, OTHER) == {
        "then": (1.0, None),
        "report": (0.8, None),
        "plan": (0.0, None),
        "other": (0.0, None),
    }


def test_where_no_time_is_named_any_told_one_fits_and_least_where_the_question_asks_when():
    coming = view("coming", told=(ToldTime(120 * DAY, 121 * DAY),))
    for asks_when, worth in ((False, 0.5), (True, 0.25)):
        facts = QueryFacts(now=NOW_OF_PARTS, time=QuestionTime(ahead=True, asks_when=asks_when))
        used = profile(ranking={"fusion": 0.5, "told": 1.0})
        (made,) = score_candidates([(Candidate(key=key("coming"), fused=0.5), coming)], used, facts)
        assert made.parts["told"] == worth


NOW_OF_OVERLAP = 20_000 * DAY + DAY / 2
TODAY = 20_000 * DAY


def told(first: float, last: float, *, weekly: bool = False) -> ToldTime:
    return ToldTime(TODAY + first * DAY, TODAY + last * DAY, weekly)


def asked(first: float, last: float) -> tuple[float, float]:
    return TODAY + first * DAY, TODAY + last * DAY


@pytest.mark.parametrize("hours", [-5.0, 9.5])
def test_a_day_is_that_of_the_zone_and_a_told_one_has_its_date(hours: float):
    zone = timezone(timedelta(hours=hours))
    theirs = Interval(start=TODAY - hours * 3600, end=TODAY + DAY - hours * 3600, kind="date", words="today")
    of_past, ahead = (QuestionTime(intervals=(theirs,), zone=zone, ahead=ahead) for ahead in (False, True))
    assert told_ranges(of_past, NOW_OF_OVERLAP) == (asked(0, 1),)
    assert told_ranges(ahead, TODAY - hours * 3600 + 60) == ((TODAY + 60, TODAY + DAY),)
    assert told_ranges(replace(ahead, intervals=()), NOW_OF_OVERLAP) == ((NOW_OF_OVERLAP + hours * 3600, None),)


@pytest.mark.parametrize(
    ("one", "share"),
    [
        (told(1, 2), 1.0),
        (told(1.5, 1.6), 1.0),
        (told(0, 1), 0.0),
        (told(2, 3), 0.0),
        (told(0, 4), 0.5),
        (told(-8, -7, weekly=True), 0.0),
        (told(-6, -5, weekly=True), 0.8),
        (told(1, 2, weekly=True), 0.8),
        (told(8, 9, weekly=True), 0.0),
    ],
)
def test_a_told_time_fits_by_its_overlap_and_its_length(one: ToldTime, share: float):
    assert told_share([one], [asked(1, 2)]) == pytest.approx(share)
    assert tells_of([one], [asked(1, 2)]) is (share > 0)


def test_what_happened_is_told_of_afterwards_and_of_nothing_much_longer():
    memory = MemoryView(id="m", text="", text_hash="", ts=TODAY + 3 * DAY, told=(told(1, 2),))
    before = memory._replace(ts=TODAY - DAY)
    vague = memory._replace(told=(told(-30, 30),))
    assert is_told_of(memory, [asked(1, 2)], ahead=False)
    assert not is_told_of(before, [asked(1, 2)], ahead=False)
    assert is_told_of(before, [asked(1, 2)], ahead=True)
    assert not is_told_of(vague, [asked(1, 2)], ahead=False)
