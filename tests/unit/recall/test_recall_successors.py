"""Successors in a recall: a stated one comes first and marks the older memory; nothing else moves or marks any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from orion_recall.errors import ProfileError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile.reading import parse_profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.report.reply import explained
from orion_recall.recall.successors import successors_first
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.values import MemoryView, SuccessionLink, SuccessionReason, Superseded
from tests.samples.recall_fakes import NOW, FakeSource, hit, key, profile, query, sources, view

DAY = 86_400.0


def link(name: str, day: float = -1.0, reason: SuccessionReason = "by_person") -> SuccessionLink:
    return SuccessionLink(key(name), name, NOW + day * DAY, reason, evidence=(name,))


def item(name: str, score: float, *successors: SuccessionLink) -> ScoredCandidate:
    return ScoredCandidate(
        candidate=Candidate(key=key(name)),
        memory=view(name, ts=NOW - 9 * DAY)._replace(succeeded_by=successors),
        score=score,
        parts={"fusion": score},
        weights={"fusion": 1.0},
    )


def order(*items: ScoredCandidate, switch: Superseded = "mark") -> list[str]:
    return [one.memory.id for one in successors_first(items, switch, now=NOW)]


def test_a_successor_stands_right_before_the_older_memory_with_its_score():
    old, new = item("old", 0.8, link("new")), item("new", 0.2)
    assert order(item("first", 0.9), old, item("between", 0.5), new) == ["first", "new", "old", "between"]
    assert (new.score, new.parts, new.weights) == (0.8, {"fusion": 0.8}, {"fusion": 1.0})
    assert old.ended == link("new")
    assert new.succeeds == link("new")._replace(key=key("old"), id="old")


def test_the_last_of_a_chain_is_first():
    chain = [item("a", 0.8, link("b", -5)), item("b", 0.3, link("c")), item("c", 0.1)]
    assert order(*chain) == ["c", "b", "a"]
    assert [one.score for one in chain] == [0.8, 0.8, 0.8]


@pytest.mark.parametrize("day", [0.5, 20.0])
def test_a_successor_said_after_the_clock_counts_for_nothing(day: float):
    old = item("old", 0.8, link("new", day))
    assert order(old, item("new", 0.2)) == ["old", "new"]
    assert old.ended is None


OLD = view("old", "The parking permit costs 40 euros.", ts=NOW - 40 * DAY)._replace(succeeded_by=(link("new"),))
NEW = view("new", "From now on it is 55.", ts=NOW - DAY)
OTHER = view("other", "The parking garage is closed at night.", ts=NOW - 50 * DAY)


async def answered(
    tokens: TokenCounter,
    memories: Sequence[MemoryView],
    text: str = "What does the parking permit cost?",
    *,
    found: Sequence[str] = ("old", "other"),
    at: float = NOW,
    switch: Superseded = "mark",
    options: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Recalled:
    """A recall in which the index finds the memories of these names, best first."""
    hits = [hit(name, 0.9 - place / 10) for place, name in enumerate(found)]
    arms = [FakeSource("vector", hits), FakeSource("lexical", hits)]
    asked = query(text, options={"include": {"trace": True}, "no_answer": False, **(options or {})}, **fields)
    by = profile(superseded=switch)
    return await recall(asked, by, sources(tokens, arms, *memories), now=at)


def ids(recalled: Recalled) -> list[str]:
    return [one.scored.memory.id for one in recalled.selection.items]


def marked(recalled: Recalled) -> list[str]:
    return [one.scored.memory.id for one in recalled.selection.items if "(until " in one.line]


async def test_a_successor_that_no_search_found_is_fetched_and_the_older_line_says_until_when(tokens: TokenCounter):
    got = await answered(tokens, [OLD, NEW, OTHER])
    assert ids(got) == ["new", "old", "other"]
    (line,) = [one for one in got.rendered.splitlines() if " old]" in one]
    assert " old] (until 2026-02-28) " in line
    assert marked(got) == ["old"]
    told = {one["id"]: one for one in explained(got)["candidates"]}
    assert told["new"]["succeeds"] == {"id": "old", "reason": "by_person", "evidence": ["new"]}
    assert told["old"]["ended_by"] == {"id": "new", "reason": "by_person", "evidence": ["new"]}
    assert told["new"]["led_by"] == "succession"


async def test_a_profile_omits_what_has_a_successor_but_for_questions_of_before(tokens: TokenCounter):
    got = await answered(tokens, [OLD, NEW, OTHER], switch="omit")
    assert ids(got) == ["new", "other"]
    assert got.selection.dropped["superseded"] == 1
    before = await answered(tokens, [OLD, NEW, OTHER], "What did the permit cost before?", switch="omit")
    assert set(ids(before)) == {"new", "old", "other"}


async def test_a_profile_that_keeps_all_fetches_moves_and_marks_nothing(tokens: TokenCounter):
    got = await answered(tokens, [OLD, NEW, OTHER], switch="keep")
    assert (ids(got), marked(got)) == (["old", "other"], [])


async def test_at_an_earlier_clock_there_is_no_successor(tokens: TokenCounter):
    got = await answered(tokens, [OLD, NEW, OTHER], at=NOW - 2 * DAY)
    assert (ids(got), marked(got)) == (["old", "other"], [])


async def test_a_successor_that_the_query_may_not_see_changes_nothing(tokens: TokenCounter):
    hidden = NEW._replace(user_id="someone-else")
    mine = OLD._replace(user_id="me")
    options = {"user": "me", "scope": "user"}
    got = await answered(tokens, [mine, hidden], found=("old",), options=options)
    assert (ids(got), marked(got)) == (["old"], [])
    assert "new" not in str(explained(got)["candidates"])


# Neither replaces the other: told apart by a place, a number, a letter, a card; ends of other things.
UNSTATED = [
    (
        "What is the door code of the Ghent office?",
        "The door code in Ghent is 7730.",
        "The door code in Lille is 1184.",
    ),
    ("When does bus 12 leave?", "Bus 12 leaves at 7:40.", "Bus 14 leaves the depot for good in June."),
    ("What is new in v1.1?", "Release v1.1: faster search.", "Release v1.2: search is replaced by a new engine."),
    ("What is the state of T-31?", "T-31: the login times out.", "T-34 moved out of the release, it is closed."),
    (
        "What is the PIN of the blue card?",
        "The PIN of the blue card is 2210.",
        "The PIN of the red card is 9143 now.",
    ),
    ("Which room is course A in?", "Course A is in room 3.", "Course B has moved to room 5."),
    ("Why did the build fail?", "The build failed: a token expired.", "The certificate of the proxy expired too."),
    ("What does Noor pay for the flat?", "Noor pays 700 for the flat.", "Noor now pays 45 for the garage instead."),
]


@pytest.mark.parametrize(("question", "older", "newer"), UNSTATED)
@pytest.mark.parametrize("switch", ["mark", "omit"])
async def test_without_a_statement_nothing_is_moved_marked_or_dropped(
    tokens: TokenCounter, question: str, older: str, newer: str, switch: Superseded
):
    memories = [view("a", older, ts=NOW - 40 * DAY), view("b", newer, ts=NOW - 5 * DAY)]
    by_switch = await answered(tokens, memories, question, found=("a", "b"), switch=switch)
    kept = await answered(tokens, memories, question, found=("a", "b"), switch="keep")
    assert ids(by_switch) == ids(kept)
    assert set(ids(kept)) == {"a", "b"}
    assert by_switch.rendered == kept.rendered
    assert "until" not in by_switch.rendered
    assert by_switch.selection.dropped == kept.selection.dropped


def test_the_former_section_is_refused_with_what_took_its_place():
    with pytest.raises(ProfileError) as refused:
        parse_profile("profile: mine.v1\nsuccession:\n  outdated: drop\n  min_confidence: 0.5\n")
    assert "only stated successors count" in str(refused.value)
    assert "write `superseded: mark`, `omit` (for `outdated: drop`) or `keep`" in str(refused.value)
