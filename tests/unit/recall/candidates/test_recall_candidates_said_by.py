from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orion_recall.recall.candidates.filters import SaidByFilter
from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.scoring.candidates import Candidate
from orion_recall.values import Interval, MemoryView
from tests.samples.recall_fakes import key, view

HANA = SaidBy(name="Hana", speakers=("Hana",), names=("hana",), is_strict=True)
DAY = Interval(100.0, 200.0, "relative", "yesterday")
KILN = view("kiln", "The kiln is cold again.", speaker="Hana", ts=150.0)
RENT = view("rent", "Rent is due on Friday.", speaker="Hana", ts=50.0)
REPORT = view("report", "I rang Hana, she says the kiln man comes on Tuesday.", speaker="Iris", ts=160.0)
OTHER = view("other", "I told Hana about the kiln.", speaker="Iris", ts=150.0)
ALL = (KILN, RENT, REPORT, OTHER)


def kept(
    said: SaidBy,
    *memories: MemoryView,
    similarities: dict[int, float] | None = None,
    closeness: dict[int, float] | None = None,
) -> Sequence[str]:
    found = [(Candidate(key=key(memory.id)), memory) for memory in memories or ALL]
    read = {candidate.key: memory for candidate, memory in found}
    dropped = Dropped()
    only = SaidByFilter(said=said, memories=read, similarities=similarities or {}, closeness=closeness or {})
    left = only.kept(found, dropped)
    assert dropped["not_said_by"] == len(found) - len(left)
    return [memory.id for _, memory in left]


@pytest.mark.parametrize(
    ("fields", "ids"),
    [
        ({}, ["kiln", "rent", "report"]),
        ({"intervals": (DAY,)}, ["kiln", "report"]),
        ({"topic": "the kilns"}, ["kiln", "rent", "report"]),
        ({"topic": "the piano"}, []),
        ({"topic": "the rent", "intervals": (DAY,)}, ["kiln", "report"]),
        ({"speakers": (), "name": "Ben", "names": ("ben",)}, []),
    ],
)  # fmt: skip
def test_what_the_person_said_is_kept_if_any_of_it_is_of_the_time_asked_about_or_else_about_the_topic(
    fields: dict[str, Any], ids: list[str]
):
    assert kept(replace(HANA, **fields)) == ids


def test_what_is_near_in_meaning_is_about_the_topic():
    said = replace(HANA, topic="the oven")
    assert kept(said, similarities={key("kiln"): 0.2}) == []
    assert kept(said, similarities={key("kiln"): 0.5}) == ["kiln", "rent", "report"]


def test_a_topic_is_told_in_other_words_where_cosine_and_late_interaction_together_are_near():
    said, cosines = replace(HANA, topic="the oven"), {key("kiln"): 0.2}
    assert kept(said, similarities=cosines, closeness={key("kiln"): 0.35}) == []
    assert kept(said, similarities=cosines, closeness={key("kiln"): 0.55}) == ["kiln", "rent", "report"]
    of_others = {key("other"): 0.9}
    assert kept(said, similarities=of_others, closeness=of_others) == [], "somebody else said it"


def test_an_answer_is_about_what_the_turn_before_it_asks():
    asked = view("asked", "How is the oven?", speaker="Iris", ts=140.0)
    answer = view("answer", "Cold, as ever.", speaker="Hana", ts=150.0, beside=(key("asked"),))
    assert kept(replace(HANA, topic="the oven"), asked, answer) == ["answer"]


def test_a_role_that_is_mentioned_keeps_everything_and_one_that_is_not_nothing():
    plumber = SaidBy(name="the plumber", speakers=(), names=("plumber",), by_role=True, is_strict=True)
    came = view("came", "The plumber came at ten.", speaker="Iris")
    told = view("told", "The plumber says it is the valve.", speaker="Iris")
    assert kept(plumber, came, KILN) == ["came", "kiln"]
    assert kept(plumber, came, told, KILN) == ["told"]
    assert kept(plumber, KILN, RENT) == []


def test_a_name_that_nobody_reports_keeps_what_mentions_it_with_the_topic():
    ben = SaidBy(name="Ben", speakers=(), names=("ben",), topic="the bicycle", is_strict=True)
    left = view("left", "Left the bicycle with Ben; the chain was off.", speaker="Iris")
    assert kept(ben, left, KILN) == ["left"]


def test_what_a_document_says_is_searched_for_wherever_its_name_is_a_title():
    policy = SaidBy(name="the policy", speakers=(), names=("policy",), topic="rent", by_role=True, is_strict=True)
    page = view("page", "Rent is paid on the first.", title="Rent policy")
    assert kept(policy, page, KILN) == ["page", "kiln"]
    assert kept(policy, KILN, RENT) == []


def test_a_speaker_whom_only_the_candidates_know_is_one():
    ben = SaidBy(name="Ben", speakers=(), names=("ben",), topic="the chain", is_strict=True)
    note = view("note", "The chain was off.", speaker="Ben Okafor")
    assert kept(ben, note, KILN) == ["note"]
    brook = replace(ben, name="Ben Brook", names=("ben brook", "ben"))
    assert kept(brook, note, KILN) == [], "another Ben"


def test_what_is_in_another_language_than_the_question_may_be_about_anything():
    festa = view(
        "festa", "A festa da minha despedida é no dia 6 de junho, no jardim da minha irmã.", speaker="Hana"
    )
    found = [(Candidate(key=key(memory.id)), memory) for memory in (festa, RENT)]
    read = {candidate.key: memory for candidate, memory in found}
    said = replace(HANA, topic="her farewell")
    english = SaidByFilter(said=said, memories=read, similarities={}, language="english")
    portuguese = SaidByFilter(said=said, memories=read, similarities={}, language="portuguese")
    assert [memory.id for _, memory in english.kept(found, Dropped())] == ["festa", "rent"]
    assert english.kept(found[1:], Dropped()) == []
    assert [memory.id for _, memory in portuguese.kept(found[:1], Dropped())] == []
