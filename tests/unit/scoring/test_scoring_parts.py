from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from orion_recall.profile import Profile
from orion_recall.profile.sections import RankingWeights
from orion_recall.scoring.candidates import Candidate
from orion_recall.scoring.part_values import Column, QueryFacts
from orion_recall.scoring.parts import PARTS, part_columns
from orion_recall.values import MemoryView, SourceName
from tests.samples.recall_fakes import NOW, key, profile, view

Pair = tuple[Candidate, MemoryView]


def found(name: str, fused: float = 0.5, scores: dict[SourceName, float] | None = None, **fields: object) -> Pair:
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


OFF_BY_DEFAULT = (
    *("words", "meaning", "session", "after_question", "first_person"),
    *("tells_time", "asks_nothing"),
)


def test_a_part_that_weighs_nothing_is_not_made():
    pair = [found("a", scores={"lexical": 2.0, "vector": 0.5}, session_id="s"), found("b")]
    columns = parts_of(pair, profile())
    assert set(OFF_BY_DEFAULT).isdisjoint(columns)
    assert {name: RankingWeights().model_dump()[name] for name in OFF_BY_DEFAULT} == dict.fromkeys(
        OFF_BY_DEFAULT, 0
    )


def test_words_and_meaning_are_a_sources_scores_stretched_over_the_candidates():
    scores: list[dict[SourceName, float]] = [
        {"lexical": 9.0, "vector": 0.5},
        {"lexical": 5.0},
        {"lexical": 1.0},
        {},
    ]
    candidates = [found(name, scores=one) for name, one in zip("abcd", scores, strict=True)]
    assert made("words", *candidates) == {"a": 1.0, "b": 0.5, "c": 0.0, "d": 0.0}
    assert made("meaning", *candidates) == {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}


def test_what_a_source_did_not_find_at_all_has_no_part_of_it():
    assert made("words", found("a", scores={"vector": 0.5})) == {}


def test_session_is_the_best_fused_score_among_the_candidates_of_the_session():
    turns = [
        found("best", 0.8, session_id="one"), found("beside", 0.2, session_id="one"),
        found("other", 0.4, session_id="two"), found("alone", 0.6), found("alone too", 0.2),
    ]  # fmt: skip
    assert made("session", *turns) == pytest.approx(
        {"best": 1.0, "beside": 1.0, "other": 0.5, "alone": 0.75, "alone too": 0.25}
    )


def test_session_counts_late_interaction_as_much_as_the_fused_score():
    turns = [found("a", 0.8, session_id="one"), found("b", 0.4, session_id="one"), found("c", 0.4)]
    late = {key("a"): 0.0, key("b"): 1.0}
    columns = parts_of(turns, weighing("session", "late"), late=late)
    assert columns["session"] == pytest.approx([0.75, 0.75, 0.5])


def test_passages_each_of_which_is_a_session_of_its_own_keep_the_order_of_the_fused_score():
    passages = [found(str(place), place / 10, session_id=str(place)) for place in range(1, 9)]
    columns = parts_of(passages, weighing("session"))
    assert columns["session"] == columns["fusion"]


def test_after_question_is_for_what_follows_one():
    assert made("after_question", found("a", after_question=True), found("b")) == {"a": 1.0, "b": 0.0}


ANSWER_PARTS = ("asks_nothing", "after_question", "tells_name", "tells_number")


def test_first_person_is_for_what_speaks_so():
    assert made("first_person", found("a", first_person=True), found("b")) == {"a": 1.0, "b": 0.0}


def test_late_interaction_is_a_part_of_the_memories_that_were_compared():
    columns = parts_of([found("a"), found("b")], profile(), late={key("a"): 0.75})
    assert columns["late"] == [0.75, None]


def test_what_the_index_does_not_hold_has_no_part_that_the_index_alone_could_give():
    own = found("own", 0.9, {"vector": 0.8, "lexical": 3.0})
    farther = found("farther", 0.5, {"vector": 0.4, "lexical": 1.0})
    mapped, timed_out = found("mapped", 0.8, {"vector": 0.9}), found("timed out", 0.1)
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


def test_what_only_own_index_and_graph_could_say_of_a_memory_is_no_loss_of_one_of_elsewhere():
    own, mapped = found("own", after_question=True, speaker="Ana"), found("mapped")
    ours, theirs = found("ours"), found("theirs", speaker="Ana")
    own[0].path = 0.9
    columns = parts_of(
        [own, ours, mapped, theirs],
        weighing("second_step", "after_question"),
        named_speaker="Ana",
        followed={"second_step": {key("own"): 0.5, key("theirs"): 0.2}},
        unindexed=frozenset((key("mapped"), key("theirs"))),
    )
    assert columns["after_question"] == [1.0, 0.0, None, None]
    assert columns["path"] == [0.9, 0.0, None, None]
    assert columns["second_step"] == [0.5, 0.0, None, 0.2]
    assert columns["speaker"] == [1.0, 0.0, None, 1.0], "a store without speakers does not say who spoke"


def test_what_the_index_does_not_hold_counts_for_its_session():
    turns = [found("a", 0.2, session_id="one"), found("b", 0.8, session_id="one")]
    columns = parts_of(turns, weighing("session"), unindexed=frozenset((key("b"),)))
    assert columns["session"] == [1.0, 1.0]


def test_no_candidates_have_no_parts():
    assert parts_of([], weighing(*OFF_BY_DEFAULT), late={}) == {}


def test_every_part_is_in_the_unit_interval_for_scores_of_any_kind():
    dice = random.Random(7)
    candidates = [
        found(
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
