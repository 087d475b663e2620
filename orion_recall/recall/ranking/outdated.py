"""What is outdated: memories that a newer one has succeeded, and until when they held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from orion_recall.memory.succession.reasons import other_values, phrases_said
from orion_recall.memory.told_changes.values import TIMED
from orion_recall.profile.sections import Succession
from orion_recall.recall.ranking.changed_part import AskedChanges
from orion_recall.recall.ranking.reading import reading_of
from orion_recall.scoring.candidates import Outdated, ScoredCandidate
from orion_recall.text.normal import words
from orion_recall.values import MemoryView, SuccessionLink, ToldTime
from orion_recall.when.told import told_times
from orion_recall.when.told_start import tells_end, told_start

_AS_SURE = 0.15
"""Confidences that differ by less say the same: of two changes the first one ended what was before."""
_VALUE = frozenset(("value",))
_OTHER_THAN_DATES = frozenset(("clock", "weekday", "money", "number"))
_TIMES = frozenset(TIMED)
_DAY_S = 86_400.0
_OTHER_TIMES = re.compile(
    r"\b(?:since|ago|already|recently|lately|meanwhile|long|(?:a|two|three|four|five|six|seven|eight|nine|ten|\d+|few|several|some)"
    r" (?:days?|weeks?|months?|years?))\b",
    re.IGNORECASE,
)
"""Words by which a change may have been before the day on which it is told."""
_FROM_NOW = re.compile(r"\bfrom (?:now|today) on(?:wards?)?\b|\bas of (?:now|today)\b", re.IGNORECASE)
_IS_OVER = re.compile(
    r"sold|cancell?ed|called off|(?:has |have )?left|quit|gave up|given up|got rid of|gave .*back|stopped|dropped"
    r"|ended|split up|broke up|scrapped|ditched|traded(?: in)?|unsubscribed|deleted|fell through|fallen through"
)
"""Phrases of what is over when it is told."""
_LAST_DAY = re.compile(
    r"\b(?:(?:last|final) (?:day|shift|week|lesson|time)|notice|un?till?|ends|expires|runs out|out (?:on|by))\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"(?<=[.!?;])\s+|\n+|(?:,|,? (?:and|but|so|while))\s+"
    r"(?=(?:i|he|she|we|they|it|you|the|my|our|his|her|a|an)\b|\w+ing\b)",
    re.IGNORECASE,
)
_OF_VALUES: frozenset[str] = frozenset(("shift", "amount"))
_OF_PLANS: frozenset[str] = frozenset(("shift", "end"))
_OTHER_VALUES: frozenset[str] = frozenset(("amount", "shift"))
_IN_PLACE: frozenset[str] = frozenset(("change", "switch"))


def links_in_force(links: Iterable[SuccessionLink], *, now: float, least: float) -> tuple[SuccessionLink, ...]:
    """The links of enough confidence whose newer memory was there at the question's time."""
    return tuple([link for link in links if link.confidence >= least and link.at <= now])


def cues_of(link: SuccessionLink) -> frozenset[str]:
    """The cues of change that a link was recognised by: those before the colon of its reason."""
    return frozenset(link.reason.partition(":")[0].split("/")) - {"weak", "present"}


def changes_plan(older: MemoryView, link: SuccessionLink) -> bool:
    """Whether the newer memory moves or cancels, before it is over, what the older one told for a time to come."""
    return bool(cues_of(link) & _OF_PLANS or _tells_another_time(link)) and _tells_ahead(older, link.at)


def _tells_another_time(link: SuccessionLink) -> bool:
    """Whether it was recognised by a time in place of another: "flights changed to 1 April"."""
    others = other_values(link.reason)
    return bool(others) and others <= _TIMES and bool(cues := cues_of(link)) and cues <= _IN_PLACE


def _tells_ahead(older: MemoryView, at: float) -> bool:
    """Whether it tells a time that was to come when it was said, and was not over at that time."""
    said = older.ts
    return said is not None and any(not one.weekly and one.since > said and one.until > at for one in older.told)


def share_changed(
    asking: AskedChanges, older: ScoredCandidate, newer: ScoredCandidate, link: SuccessionLink
) -> float:
    """How far the succession changes what is asked: another time or amount does not change who somebody is."""
    if asking.asks_person and (cues := cues_of(link)) and cues <= _OF_VALUES:
        return 0.0
    return asking.share(older, newer)


def marked(
    ranked: Sequence[ScoredCandidate],
    there: Mapping[int, ScoredCandidate],
    settings: Succession,
    now: float,
    asking: AskedChanges,
) -> list[ScoredCandidate]:
    """The candidates, with what outdates those whose successor is there as well, in what is asked about.

    `there` are the candidates by key."""
    found = [*ranked]
    for place, item in enumerate(ranked):
        if item.memory.succeeded_by and (by := _outdated_by(item, there, settings, now, asking)) is not None:
            found[place] = replace(item, outdated=by)
    return found


def outdated(scored: Sequence[ScoredCandidate], *, now: float) -> dict[int, int]:
    """The keys of the memories that do not hold any more, each with that of the successor, which is there as well.

    One that holds until a day to come is none of them.
    """
    there = {item.candidate.key for item in scored}
    return {
        item.candidate.key: item.outdated.link.key
        for item in scored
        if item.outdated is not None and item.outdated.until <= now and item.outdated.link.key in there
    }


def _outdated_by(
    item: ScoredCandidate,
    there: Mapping[int, ScoredCandidate],
    settings: Succession,
    now: float,
    asking: AskedChanges,
) -> Outdated | None:
    """The first change among the surest ones; None where no successor that is there changes what is asked.

    Where one that is less sure told another value of the same type before it, it was then or earlier.
    """
    found = [
        by
        for link in links_in_force(item.memory.succeeded_by, now=now, least=settings.min_confidence)
        if (link.by == "hand" or link.confidence >= settings.mark_confidence)
        and (newer := there.get(link.key)) is not None
        and share_changed(asking, item, newer, link)
        and (by := _ended(item.memory, newer.memory, link, now)) is not None
    ]
    if not found:
        return None
    least = max(one.link.confidence for one in found) - _AS_SURE
    first = min(
        (one for one in found if one.link.confidence >= least),
        key=lambda one: (one.until, -one.link.confidence, one.link.id),
    )
    values = other_values(first.link.reason)
    is_unsure = values and any(
        link.at < first.link.at and link.confidence < least and not values.isdisjoint(other_values(link.reason))
        for link in item.memory.succeeded_by
    )
    return first._replace(or_earlier=True) if is_unsure else first


def _ended(older: MemoryView, newer: MemoryView, link: SuccessionLink, now: float) -> Outdated | None:
    """Until when the older memory held, as far as both texts tell; None where that is not sure.

    It is the beginning of what the newer one says where it tells that, else the day on which it was said. Where it
    tells of other times ("it's two weeks now") it was then or earlier; where it tells of one that is to come ("I'm
    leaving at Christmas") it is not said that it is over yet. What tells its own end ("until June") has no mark.
    """
    if older.ts is not None and tells_end(older.text, older.ts):
        return None
    if _is_the_news(older, newer, link):
        return Outdated(link.at, link, newer)
    if (clause := _clause_of_end(newer.text, link)) is not None:
        earlier = bool(_OTHER_TIMES.search(clause)) or _tells_days_before(newer.told, link)
        return Outdated(link.at, link, newer, earlier)
    start = told_start(newer.text, link.at)
    if start is not None and (older.ts is None or start > older.ts):
        return Outdated(start, link, newer)
    if "shift" in cues_of(link) or (_tells_another_time(link) and _tells_ahead(older, link.at)):
        return Outdated(link.at, link, newer)  # the time before is not meant any more
    once = [one for one in newer.told if not one.weekly]
    last = max((one.until for one in once if one.since > link.at), default=None)
    if last is None:
        earlier = bool(_OTHER_TIMES.search(newer.text)) or _tells_days_before(once, link)
        return Outdated(link.at, link, newer, earlier and _FROM_NOW.search(newer.text) is None)
    return Outdated(last - _DAY_S, link, newer, or_earlier=True) if last <= now else None


def _clause_of_end(text: str, link: SuccessionLink) -> str | None:
    """The clause that says what is over when it is told, as in "We sold the boat, the new one comes on Saturday".

    None where the text says no such end, or when it will be: in the clause itself, or as a last day.
    """
    phrases = [phrase for phrase in phrases_said(link.reason) if _IS_OVER.fullmatch(phrase)]
    if not phrases or cues_of(link) & _OTHER_VALUES or _LAST_DAY.search(text):
        return None
    for clause in _CLAUSE_END.split(text):
        said = f" {' '.join(words(clause.casefold().replace('’', chr(39))))} "
        if any(f" {phrase} " in said for phrase in phrases):
            return None if _tells_ahead_in(clause, link.at) else clause
    return None


@lru_cache(maxsize=1024)
def _tells_ahead_in(clause: str, at: float) -> bool:
    """Whether a clause that was said then tells a time to come."""
    told = told_times(clause, datetime.fromtimestamp(at, UTC))
    return any(not one.weekly and one.until > at + _DAY_S for one in told)


def _tells_days_before(told: Iterable[ToldTime], link: SuccessionLink) -> bool:
    """Whether one of the told times begins on a day before that on which the newer memory was said."""
    return any(not one.weekly and one.since < link.at // _DAY_S * _DAY_S for one in told)


def _is_the_news(older: MemoryView, newer: MemoryView, link: SuccessionLink) -> bool:
    """Whether the time itself is what is new: "the fair runs from 3 May", where it was to run from 20 April."""
    cues = cues_of(link)
    if "shift" not in cues and not (cues <= _VALUE and other_values(link.reason) <= _TIMES):
        return False
    old, new = reading_of(older).whole, reading_of(newer).whole
    return not old.kinds.isdisjoint(_TIMES) and new.kinds.isdisjoint(_OTHER_THAN_DATES)
