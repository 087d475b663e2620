"""What is outdated: until when it held, by what, and which part of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from orion_recall.profile.sections import Succession
from orion_recall.recall.ranking.changed_part import AskedChanges, shows_changed
from orion_recall.recall.ranking.outdated import marked, outdated
from orion_recall.scoring.candidates import Candidate, Outdated, ScoredCandidate
from orion_recall.values import SuccessionLink, ToldTime
from orion_recall.when.told import told_times
from tests.samples.recall_fakes import key, view

FERRY = "The ferry to the island is 11 crowns."
OTHER_PLACE = 'value: both say "sing"; another name'
RAISED = 'amount: it says "goes up"; both say "ferry"; another amount of money'


def day(month: int, of_month: int) -> float:
    return datetime(2026, month, of_month, 9, tzinfo=UTC).timestamp()


NOW = day(12, 20)


def item(name: str, text: str, said: float, *by: SuccessionLink) -> ScoredCandidate:
    memory = view(name, text)._replace(ts=said, succeeded_by=by)
    return ScoredCandidate(candidate=Candidate(key=key(name)), memory=memory, score=0.5, parts={})


def link(name: str, said: float, sure: float = 0.9, reason: str = RAISED) -> SuccessionLink:
    return SuccessionLink(key(name), name, sure, said, "rule", reason)


def mark(*items: ScoredCandidate, now: float = NOW) -> list[Outdated | None]:
    there = {one.candidate.key: one for one in items}
    return [one.outdated for one in marked(items, there, Succession(mark_confidence=0.5), now, AskedChanges(""))]


def until(*items: ScoredCandidate, now: float = NOW) -> str | None:
    first = mark(*items, now=now)[0]
    return None if first is None else datetime.fromtimestamp(first.until, UTC).date().isoformat()


@pytest.mark.parametrize(
    ("newer", "reason", "ends"),
    [
        ("The ferry goes up to 14 crowns from 9 December.", RAISED, "2026-12-09"),
        ("Starting Friday the ferry is 14 crowns.", RAISED, "2026-12-04"),
        ("The ferry is 14 crowns now.", RAISED, "2026-12-01"),
        # A beginning before the older memory was told is not the end of that.
        ("The ferry has been 14 crowns since 2 January.", RAISED, "2026-12-01"),
    ],
)
def test_a_memory_held_until_what_is_new_begins(newer: str, reason: str, ends: str):
    old = item("old", FERRY, day(5, 4), link("new", day(12, 1), reason=reason))
    assert until(old, item("new", newer, day(12, 1))) == ends


@pytest.mark.parametrize(
    ("newer", "ends"),
    [
        ("The fair has been postponed, it runs from 9 December.", "2026-12-01"),
        ("The fair has been postponed to 16:00, from 9 December on.", "2026-12-09"),
    ],
)
def test_where_the_time_itself_is_the_news_the_old_one_held_until_that_was_told(newer: str, ends: str):
    shift = 'shift: it says "postponed"; both say "fair"; another date'
    old = item("old", "The fair runs from 28 November.", day(11, 4), link("new", day(12, 1), reason=shift))
    assert until(old, item("new", newer, day(12, 1))) == ends


def test_a_regular_time_in_the_older_memory_is_no_news_where_another_value_changes():
    old = item("old", "We sing in a chapel on Wednesdays.", day(5, 4), link("new", day(12, 1), reason=OTHER_PLACE))
    assert until(old, item("new", "From the 9th we sing in the town hall.", day(12, 1))) == "2026-12-09"


def test_what_holds_until_a_day_to_come_is_marked_and_not_left_out():
    old = item("old", FERRY, day(5, 4), link("new", day(12, 1)))
    new = item("new", "The ferry goes up to 14 crowns from 9 December.", day(12, 1))
    for now, dropped in ((day(12, 5), {}), (NOW, {key("old"): key("new")})):
        found = marked(
            [old, new],
            {one.candidate.key: one for one in (old, new)},
            Succession(mark_confidence=0.5),
            now,
            AskedChanges(""),
        )
        assert found[0].outdated is not None
        assert outdated(found, now=now) == dropped
    assert outdated(found[:1], now=NOW) == {}


@pytest.mark.parametrize(
    ("sure", "by"), [((0.6, 0.95), "late"), ((0.9, 0.95), "early"), ((0.95, 0.6), "early"), ((0.95, 0.95), "early")]
)
def test_of_several_changes_the_first_of_the_surest_outdates(sure: tuple[float, float], by: str):
    links = link("early", day(8, 1), sure[0]), link("late", day(10, 1), sure[1])
    old = item("old", FERRY, day(5, 4), *links)
    items = old, item("early", "The ferry is 12 crowns now.", day(8, 1)), item("late", "It is 14 now.", day(10, 1))
    (first, *_) = mark(*items)
    assert first is not None
    assert (first.link.id, first.newer.id, first.until) == (by, by, first.link.at)


def test_a_successor_that_is_not_there_outdates_nothing():
    assert mark(item("old", FERRY, day(5, 4), link("new", day(12, 1)))) == [None]


def told_by(
    newer: str, said: float, *, older: str = FERRY, now: float = NOW, reason: str = RAISED
) -> tuple[str, bool] | None:
    """The day of the mark, and whether it was then or earlier."""
    new = item("new", newer, said)
    mentions = told_times(newer, datetime.fromtimestamp(said, UTC))
    told = tuple(ToldTime(one.since, one.until, one.weekly) for one in mentions)
    new = replace(new, memory=new.memory._replace(told=told))
    first = mark(item("old", older, day(5, 4), link("new", said, reason=reason)), new, now=now)[0]
    return (
        None if first is None else (datetime.fromtimestamp(first.until, UTC).date().isoformat(), first.or_earlier)
    )


@pytest.mark.parametrize(
    ("newer", "ends"),
    [
        ("The ferry is 14 crowns now.", ("2026-12-01", False)),
        ("The ferry went up yesterday, it is 14 now.", ("2026-12-01", True)),
        ("I've given up the ferry, it's two weeks now.", ("2026-12-01", True)),
        ("The ferry has been 14 crowns since the storm.", ("2026-12-01", True)),
        ("The ferry stops at Christmas.", None),
        ("The ferry stops at the end of January, and the bridge opens on 3 March.", None),
        ("The ferry stops on 10 December.", ("2026-12-10", True)),
    ],
)
def test_a_mark_says_no_day_that_the_newer_memory_does_not_tell(newer: str, ends: tuple[str, bool] | None):
    assert told_by(newer, day(12, 1)) == ends


SOLD = 'end: it says "sold"; both say "boat"'


@pytest.mark.parametrize(
    ("newer", "reason", "ends"),
    [
        ("We sold the boat to the Lunds. The kayak comes on 10 December.", SOLD, ("2026-12-01", False)),
        ("We sold the boat. From 10 December we have a kayak.", SOLD, ("2026-12-01", False)),
        ("The kayak came on Saturday. We sold the boat.", SOLD, ("2026-12-01", True)),
        ("We sold the boat two weeks ago. The kayak comes on 10 December.", SOLD, ("2026-12-01", True)),
        ("I've quit the rowing. The money comes on 10 December.", 'end: it says "quit"', ("2026-12-01", False)),
        ("I've quit the rowing, my last day is 10 December.", 'end: it says "quit"', ("2026-12-10", True)),
        ("The boat is sold on 10 December.", SOLD, ("2026-12-10", True)),
        ("They gave the boat back, the kayak comes on 10 December.", 'change: it says "gave the boat back"',
         ("2026-12-01", False)),
    ],
)  # fmt: skip
def test_what_is_over_when_it_is_told_ends_then(newer: str, reason: str, ends: tuple[str, bool]):
    assert told_by(newer, day(12, 1), older="The boat leaks.", reason=reason) == ends


@pytest.mark.parametrize(
    ("newer", "ends"),
    [
        ("From now on the ferry is the Skarven, same price, four days a week.", ("2026-12-01", False)),
        ("From now on we take the Skarven, it was late yesterday.", ("2026-12-01", False)),
        ("We take the Skarven, it goes four days a week.", ("2026-12-01", True)),
    ],
)
def test_from_now_on_is_from_that_day_on(newer: str, ends: tuple[str, bool]):
    assert told_by(newer, day(12, 1)) == ends


def test_a_time_that_is_moved_is_not_meant_any_more():
    reason = 'shift: it says "moved"; another time of day, date'
    old = item("old", "The exam is on 19 December at 11:20.", day(5, 4), link("new", day(12, 1), reason=reason))
    newer = item("new", "Your exam must be moved. We can offer 21 December at 8:40.", day(12, 1))
    newer = replace(newer, memory=newer.memory._replace(told=(ToldTime(day(12, 21), day(12, 21) + 60, False),)))
    assert until(old, newer) == "2026-12-01"


@pytest.mark.parametrize(
    ("reason", "ends"),
    [
        ('change/switch: it says "changed to"; both say "fly"; another date, month', "2026-12-01"),
        # Another value is new from a day to come on: until then the older one holds.
        ('change/switch: it says "changed to"; both say "fly"; another name', None),
    ],
)
def test_a_time_in_place_of_another_ends_the_plan(reason: str, ends: str | None):
    old = item("old", "We fly on 22 December.", day(5, 4), link("new", day(12, 1), reason=reason))
    old = replace(old, memory=old.memory._replace(told=(ToldTime(day(12, 22), day(12, 23), False),)))
    new = item("new", "It is moved to Easter. Flights changed to 30 December.", day(12, 1))
    new = replace(new, memory=new.memory._replace(told=(ToldTime(day(12, 30), day(12, 31), False),)))
    assert until(old, new) == ends


def test_what_tells_its_own_end_has_no_mark():
    older = "The ferry is 11 crowns from now until Christmas."
    assert told_by("The ferry is 14 crowns from January.", day(12, 1), older=older) is None


HOUSE = "Petra plays the cello in the quartet. Petra's surgery is at 12 Harbour Street."
MOVED = "Petra's surgery has moved to 40 Quay Street."


@pytest.mark.parametrize(
    ("shown", "changed"),
    [
        ("Petra plays the cello in the quartet. …", False),
        ("… surgery is at 12 Harbour Street.", True),
        (HOUSE, True),
    ],
)
def test_a_part_of_an_outdated_memory_shows_what_changed_or_not(shown: str, changed: bool):
    older, newer = view("old", HOUSE, entities=("Petra",)), view("new", MOVED, entities=("Petra",))
    assert shows_changed(older, newer, shown) is changed


def test_a_value_that_stays_the_same_is_no_change():
    older = view("old", "The gym is on Tuesdays at the mill. A visit is 12 crowns.")
    newer = view("new", "The gym has moved to Fridays. Still 12 crowns.")
    assert not shows_changed(older, newer, "… A visit is 12 crowns.")
    assert shows_changed(older, newer, "The gym is on Tuesdays …")


def test_a_part_without_the_value_that_changes_shows_no_change():
    older = view("old", "We fly to Bergen on 22 December, to my brother Mark and his wife Signe.")
    newer = view("new", "Signe is not well. Flights to Bergen changed to 1 April.")
    assert not shows_changed(older, newer, "Signe wife of Mark; Mark brother of Ada …")
    assert shows_changed(older, newer, "We fly to Bergen on 22 December, …")


def test_where_it_cannot_be_told_what_changed_every_part_may_show_it():
    older = view("old", "Olaf fixes clocks. Marit bakes.")
    assert shows_changed(older, view("new", "All of that is over."), "Olaf fixes clocks. …")


@pytest.mark.parametrize(
    ("sure", "reason", "is_earlier"),
    [(0.4, RAISED, True), (0.66, RAISED, True), (0.4, 'change: it says "now"', False)],
)
def test_a_change_of_the_same_value_that_is_less_sure_may_have_ended_it_before(
    sure: float, reason: str, is_earlier: bool
):
    links = link("maybe", day(9, 1), sure, reason), link("new", day(12, 1))
    old, new = item("old", FERRY, day(5, 4), *links), item("new", "The ferry is 14 crowns now.", day(12, 1))
    first = mark(old, new)[0]
    assert first is not None
    assert (first.link.id, first.or_earlier) == ("new", is_earlier)
