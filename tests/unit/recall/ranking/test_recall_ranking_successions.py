"""Successions in a ranking: the newer first, both in order, marked, or as they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orion_recall.profile.sections import Succession
from orion_recall.recall.ranking.outdated import outdated
from orion_recall.recall.ranking.successions import missing, with_successions
from orion_recall.scoring.candidates import Candidate, NewerThan, ScoredCandidate
from orion_recall.values import SuccessionLink, Tense, ToldTime
from tests.samples.recall_fakes import NOW, key, view

MARK = Succession(mark_confidence=0.5)
LENA = "Lena goes to Elm School. She has violin on Mondays."


def item(name: str, score: float, *, day: float = 0.0, by: str | None = None, sure: float = 0.9) -> ScoredCandidate:
    at = NOW - 1e6 + (day + 1) * 86_400
    links = () if by is None else (SuccessionLink(key(by), by, sure, at),)
    memory = view(name)._replace(ts=NOW - 1e6 + day * 86_400, succeeded_by=links)
    return ScoredCandidate(candidate=Candidate(key=key(name)), memory=memory, score=score, parts={})


def order(found: list[ScoredCandidate]) -> list[str]:
    return [one.memory.id for one in found]


def test_for_now_the_newer_stands_before_the_older_and_the_older_is_marked() -> None:
    found = with_successions(
        [item("old", 0.8, by="new"), item("other", 0.7), item("new", 0.1, day=1)], "now", MARK, now=NOW
    )
    assert order(found) == ["new", "old", "other"]
    assert [one.outdated is not None for one in found] == [False, True, False]


def test_a_chain_ends_with_its_last_first() -> None:
    chain = [item("one", 0.9, by="two"), item("two", 0.2, day=1, by="three"), item("three", 0.1, day=2)]
    assert order(with_successions(chain, "now", MARK, now=NOW)) == ["three", "two", "one"]


def chained(*said: str, asked: str) -> list[str]:
    """The texts in the order in which a chain of successions answers; each by itself is found worse than before."""
    names = [str(place) for place in range(len(said))]
    items = [
        item(name, 0.9 - 0.2 * place, day=place, by=names[place + 1] if place + 1 < len(said) else None)
        for place, name in enumerate(names)
    ]
    told = [
        replace(one, memory=one.memory._replace(text=text, entities=("Canal Street",)))
        for one, text in zip(items, said, strict=True)
    ]
    return [one.memory.text for one in with_successions(told, "now", MARK, now=NOW, asked=asked)]


FLAT, CANAL = "We live in a flat in Mill Lane.", "We have moved out of Mill Lane, home is Canal Street now."


@pytest.mark.parametrize(
    "unrelated",
    ["The gym class has moved to Thursdays.", "The choir has changed its evening, and it is much longer now."],
)
def test_the_last_of_a_chain_takes_the_place_only_of_what_it_changes(unrelated: str) -> None:
    assert chained(FLAT, CANAL, unrelated, asked="Where do we live?") == [CANAL, FLAT, unrelated]


def test_a_chain_goes_on_as_long_as_each_changes_what_is_asked() -> None:
    again = "We moved once more, home is Harbour Square."
    assert chained(FLAT, CANAL, again, asked="Where do we live?") == [again, CANAL, FLAT]
    boss, second, third = (
        "My boss is Ana.",
        "Ben takes over from Ana.",
        "Ben has left, Cleo is taking over from him.",
    )
    assert chained(boss, second, third, asked="Who is my boss?")[0] in (second, third)


def test_for_before_both_are_in_the_order_of_time() -> None:
    found = with_successions(
        [item("new", 0.8, day=1), item("x", 0.5), item("old", 0.3, by="new")], "before", MARK, now=NOW
    )
    assert order(found) == ["old", "new", "x"]


def test_what_is_not_there_yet_succeeds_nothing() -> None:
    pair = [item("old", 0.8, by="new"), item("new", 0.1, day=1)]
    assert order(with_successions(pair, "now", MARK, now=NOW - 2e6)) == ["old", "new"]


def test_with_little_confidence_the_newer_comes_nearer_and_does_not_pass() -> None:
    pair = [item("old", 0.8, by="new", sure=0.4), item("new", 0.2, day=1)]
    found = with_successions(pair, "now", MARK, now=NOW)
    assert order(found) == ["old", "new"]
    assert found[1].score == pytest.approx(0.2 + 0.5 * 0.4 * (0.8 - 0.2))
    assert found[0].outdated is None
    assert found[1].newer_than == NewerThan(found[0].candidate.key, "old", "noted")
    sure = with_successions([item("old", 0.8, by="new"), pair[1]], "now", MARK, now=NOW)
    assert [one.newer_than for one in sure] == [None, None]


def test_without_a_tense_the_order_stays_and_the_older_is_marked() -> None:
    pair = [item("old", 0.8, by="new"), item("new", 0.1, day=1)]
    for wants_all in (False, True):
        found = with_successions(pair, None, MARK, now=NOW, wants_all=wants_all)
        assert [(one.memory.id, one.score) for one in found] == [("old", 0.8), ("new", 0.1)]
        assert [one.outdated is not None for one in found] == [True, False]


DAY = 86_400.0
RECITAL = 'shift: it says "moved"; both say "recital"; another date'
OFF = 'end: it says "is off"; both say "fair"'
FLIGHTS = 'change/switch: it says "changed to"; both say "flights"; another date, month'


@pytest.mark.parametrize(
    ("reason", "ahead", "weekly", "first"),
    [
        (RECITAL, 5.0, False, "new"),
        (OFF, 5.0, False, "new"),
        (FLIGHTS, 5.0, False, "new"),
        # It was over before it could be moved, it had begun when it was told, or it is a regular time.
        (RECITAL, 1.0, False, "old"),
        (RECITAL, -1.0, False, "old"),
        (RECITAL, 5.0, True, "old"),
        # What changed is another thing than a time that was to come.
        ('value: both say "fair"; another date', 5.0, False, "old"),
        ('change/switch: both say "fair"; another name', 5.0, False, "old"),
    ],
)
def test_what_moves_or_cancels_a_plan_answers_what_became_of_it(
    reason: str, ahead: float, weekly: bool, first: str
) -> None:
    old, new = item("old", 0.8, by="new"), item("new", 0.3, day=2)
    said = old.memory.ts or 0.0
    (link,) = old.memory.succeeded_by
    told = ToldTime(said + ahead * DAY, said + ahead * DAY + DAY / 2, weekly)
    old.memory = old.memory._replace(
        told=(told,), succeeded_by=(link._replace(reason=reason, at=new.memory.ts or 0.0),)
    )
    assert with_successions([old, new], None, MARK, now=NOW)[0].memory.id == first
    assert with_successions([old, new], None, MARK, now=NOW, wants_all=True)[0].memory.id == "old"


@pytest.mark.parametrize("tense", ["now", None])
def test_what_cancels_a_plan_stands_first_though_it_repeats_little_of_what_is_asked(tense: Tense | None) -> None:
    old, new = item("old", 0.8, by="new"), item("new", 0.3, day=2)
    said = old.memory.ts or 0.0
    (link,) = old.memory.succeeded_by
    text = "Going to the piano fair in Hannover in two weeks, with Idris. Train, two nights."
    link = link._replace(reason=OFF, at=new.memory.ts or 0.0)
    told = ToldTime(said + 14 * DAY, said + 15 * DAY, False)
    old.memory = old.memory._replace(text=text, entities=("Hannover", "Idris"), told=(told,), succeeded_by=(link,))
    new.memory = new.memory._replace(text="Hannover is off. Idris a bit sad.", entities=("Hannover", "Idris"))
    found = with_successions([old, new], tense, MARK, now=NOW, asked="Did we go to the fair in Hannover?")
    assert order(found) == ["new", "old"]
    assert found[1].outdated is not None


def test_with_keep_nothing_changes() -> None:
    pair = [item("old", 0.8, by="new"), item("new", 0.1, day=1)]
    assert with_successions(pair, "now", MARK.model_copy(update={"outdated": "keep"}), now=NOW) == pair


def test_the_outdated_are_those_that_are_marked() -> None:
    found = with_successions([item("old", 0.8, by="new"), item("new", 0.1, day=1)], "now", MARK, now=NOW)
    assert outdated(found, now=NOW) == {key("old"): key("new")}
    assert outdated([replace(one, outdated=None) for one in found], now=NOW) == {}


def test_a_successor_that_was_not_found_is_fetched() -> None:
    old = item("old", 0.8, by="new")
    every: tuple[Tense | None, ...] = "now", "before", None
    for tense in every:
        assert set(missing([(old.candidate, old.memory)], tense, now=NOW, least=0.5)) == {key("new")}
    assert missing([(old.candidate, old.memory)], "now", now=NOW, least=0.95) == {}
    assert missing([(old.candidate, old.memory)], "now", now=NOW - 2e6, least=0.5) == {}


def test_a_succession_that_changes_something_else_does_not_count() -> None:
    old, new = item("old", 0.8, by="new"), item("new", 0.1, day=1)
    old = replace(old, memory=old.memory._replace(text=LENA, entities=("Lena",)))
    new = replace(new, memory=new.memory._replace(text="Lena has drums instead, on Thursdays."))
    found = with_successions([old, new], "now", MARK, now=NOW, asked="Which school does Lena go to?")
    assert order(found) == ["old", "new"]
    assert found[0].outdated is None
    asked = "On which days does Lena have her lesson?"
    assert order(with_successions([old, new], "now", MARK, now=NOW, asked=asked)) == ["new", "old"]


@pytest.mark.parametrize(
    ("asked", "is_marked"),
    [
        ("Where does Mark Hale work now?", True),
        ("Where does Ana Lund work now?", False),
        ("Who is at the mill?", True),
    ],
)
def test_who_says_that_he_hands_over_is_who_the_question_is_about(asked: str, is_marked: bool) -> None:
    old, new = item("old", 0.8, by="new"), item("new", 0.3, day=1)
    old.memory = old.memory._replace(text="Mark Hale works at the mill. Ana Lund works at the dairy.")
    new.memory = new.memory._replace(text="I stop at the mill, Ida Berg gets my desk.", speaker="Mark Hale")
    found = with_successions([old, new], "now", MARK, now=NOW, asked=asked)
    assert any(one.outdated is not None for one in found) is is_marked


def test_what_another_says_does_not_take_the_place_of_the_named_speakers_words() -> None:
    old = replace(item("old", 0.8, by="new"), parts={"speaker": 1.0}, weights={"speaker": 1.0})
    new = replace(item("new", 0.1, day=1), parts={"speaker": 0.0}, weights={"speaker": 1.0})
    assert order(with_successions([old, new], "now", MARK, now=NOW)) == ["old", "new"]


@pytest.mark.parametrize(("reason", "first"), [("shift: gig (date)", "other"), ("value: gig", "old")])
def test_what_was_moved_counts_less_in_a_calendar(reason: str, first: str) -> None:
    told = {"parts": {"told": 1.0, "late": 0.8}, "weights": {"told": 1.0, "late": 1.0}}
    old = replace(item("old", 0.9, by="gone"), **told)
    old = replace(
        old,
        memory=old.memory._replace(
            succeeded_by=tuple(one._replace(reason=reason) for one in old.memory.succeeded_by)
        ),
    )
    found = with_successions([old, item("other", 0.7)], "now", MARK, now=NOW, asked="What is on?", wants_all=True)
    assert order(found)[0] == first


@pytest.mark.parametrize(
    ("asked", "reason", "first"),
    [
        ("Who is Idun?", 'shift: it says "postponed"', "old"),
        ("When is the feast of Idun?", 'shift: it says "postponed"', "new"),
        ("Who is Idun?", 'change: it says "no longer"', "new"),
    ],
)
def test_another_time_does_not_change_who_somebody_is(asked: str, reason: str, first: str) -> None:
    old, new = item("old", 0.8, by="new"), item("new", 0.1, day=1)
    (link,) = old.memory.succeeded_by
    texts = "Idun has her feast on 3 May.", "Idun has postponed the feast to 9 May."
    old.memory = old.memory._replace(text=texts[0], succeeded_by=(link._replace(reason=reason),))
    new.memory = new.memory._replace(text=texts[1])
    found = with_successions([old, new], "now", MARK, now=NOW, asked=asked)
    assert found[0].memory.id == first
    assert any(one.outdated is not None for one in found) is (first == "new")


def test_what_came_of_a_wish_is_no_answer_to_what_is_wished() -> None:
    old, new = item("old", 0.8, by="new"), item("new", 0.1, day=1)
    old.memory = old.memory._replace(text="I'd like to swap the canoe for a sailing boat.")
    new.memory = new.memory._replace(text="The canoe is sold, the sailing boat is here.")
    assert order(with_successions([old, new], "now", MARK, now=NOW, asked="What would I like to own?")) == [
        "old",
        "new",
    ]
    assert order(with_successions([old, new], "now", MARK, now=NOW, asked="Which boat do I own?")) == ["new", "old"]
