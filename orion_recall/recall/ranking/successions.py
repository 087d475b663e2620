"""Successions in a ranking: the newer memory before the one that it succeeds, or both in the order of time.

For a question about now the newer one takes the older one's score where that is higher, in proportion to the
confidence, if it changes what the question asks about; for a question about before, what belongs together is put in
the order of time. For any other ("when was", "did we go") the newer one does so only where it moves or cancels what
the older one told for a time to come. In all of them the older one is marked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from orion_recall.profile.sections import Succession
from orion_recall.recall.ranking.changed_part import AskedChanges
from orion_recall.recall.ranking.newer import MOST_STATED, Lift, newer_alike, speaks_less_of
from orion_recall.recall.ranking.outdated import changes_plan, cues_of, links_in_force, marked, share_changed
from orion_recall.recall.ranking.score import combine, in_order
from orion_recall.scoring.candidates import Candidate, NewerThan, ScoredCandidate
from orion_recall.values import MemoryView, SuccessionLink, Tense

MOST_FETCHED = 12
ROUNDS = 2
"""How far a chain of successions is followed to memories that no search found."""
MOST_SUCCEEDED = 50
"""Candidates, from the best, that a successor may be fetched for or take the place of."""
PART = "succession"
TOLD = "told"
STEP = 1e-6
_OWN_SHARE = 0.1
_LEAST_SHARE = 0.5
_SURE = 0.75
_STILL_TOLD = 0.5
_ENDS: frozenset[str] = frozenset(("end",))


def missing(
    kept: Sequence[tuple[Candidate, MemoryView]], tense: Tense | None, *, now: float, least: float
) -> dict[int, Candidate]:
    """The candidates for memories that succeed found ones and were not found, by key; with those that precede them
    for a question about before.

    They are found through the best of those that name them, and have nothing else.
    """
    found: dict[int, Candidate] = {}
    if not [True for _, memory in kept if memory.succeeded_by or memory.succeeds]:  # any() would be a call for each
        return found
    # Those that were fetched for others have no fused score: their chain goes on.
    fused = [candidate.fused for candidate, _ in kept]
    places = sorted(range(len(kept)), key=fused.__getitem__, reverse=True)  # they mostly are in order
    best = [kept[place] for place in places[:MOST_SUCCEEDED]]
    linked = [*best, *(one for one in kept[MOST_SUCCEEDED:] if not one[0].fused)]
    known = {candidate.key for candidate, _ in kept}
    for candidate, memory in linked:
        links = (*memory.succeeded_by, *memory.succeeds) if tense == "before" else memory.succeeded_by
        for link in links:
            if link.key not in known and link.confidence >= least and link.at <= now:
                if len(found) == MOST_FETCHED:
                    return found
                known.add(link.key)
                found[link.key] = Candidate(key=link.key, best_source=candidate.best_source, led_by="succession")
    return found


def with_successions(
    scored: Sequence[ScoredCandidate],
    tense: Tense | None,
    settings: Succession,
    *,
    now: float,
    asked: str = "",
    wants_all: bool = False,
) -> list[ScoredCandidate]:
    """The candidates with their scores changed so that successions are in order, best first.

    `asked` is the question's text: for now a succession counts as far as it changes what that asks about.
    `wants_all`: it asks for a list or a calendar, where nothing is preferred for being newer.
    """
    linked = [item for item in scored[:MOST_SUCCEEDED] if item.memory.succeeded_by]
    if settings.outdated == "keep" or (tense is None and not linked):
        return list(scored)
    by_key = {item.candidate.key: item for item in scored}
    if tense == "before":
        by_key = _in_time_order(by_key, settings, now)
        return marked(in_order(by_key.values()), by_key, settings, now, AskedChanges(""))
    asking = AskedChanges("" if wants_all else asked)  # in a list whatever has changed
    is_now = tense == "now"
    lifts = newer_alike(scored, asking, now=now) if is_now and asking.asked else {}
    lifted = {key: lift.score for key, lift in lifts.items()}
    halved = _with_moved_times(by_key, settings, now) if is_now and wants_all else {}
    if not linked and not lifted and not halved:
        return list(scored)
    taking = _TakingOver(
        by_key=by_key,
        scores=dict(lifted),
        settings=settings,
        now=now,
        asking=asking,
        timed=halved.keys(),
        only_plans=not is_now,
    )
    # A list of what has happened has no order of now.
    changed = {*lifted, *(taking.run(linked) if is_now or not wants_all else ())}
    # Only then those of another time, so that what tells none of its own has taken the place of what it moved.
    by_key |= {
        key: moved(
            by_key[key], taking.scores[key], _reason(taking.scores[key], lifts.get(key)) or taking.noted.get(key)
        )
        for key in changed
    }
    by_key |= {key: item for key, item in halved.items() if key not in changed}
    return marked(in_order(by_key.values()), by_key, settings, now, asking)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TakingOver:
    """Newer memories take the scores of those that they succeed.

    A memory is moved by many links: only its score in `scores` is followed, once it has changed. What is in
    `timed` gives nothing to a memory that tells a time of its own. With `only_plans` none but what was moved or
    cancelled before it was to be gives its score. `noted`: the older ones whose scores were taken for a likeness
    alone, by the newer one's key.
    """

    by_key: Mapping[int, ScoredCandidate]
    scores: dict[int, float]
    settings: Succession
    now: float
    asking: AskedChanges
    timed: Collection[int]
    only_plans: bool
    noted: dict[int, NewerThan] = field(default_factory=dict[int, NewerThan])

    def _score(self, key: int) -> float:
        """The memory's score as it is by now."""
        return self.by_key[key].score if (score := self.scores.get(key)) is None else score

    def run(self, linked: Iterable[ScoredCandidate]) -> set[int]:
        """The keys of the memories whose score changes. The oldest go first: the last of a chain is the best."""
        changed: set[int] = set()
        taken_from: dict[int, ScoredCandidate] = {}
        for older in sorted(linked, key=lambda one: (one.memory.ts or 0.0, one.memory.id)):
            key = older.candidate.key
            for link in older.memory.succeeded_by:
                if (newer := self._newer(older, link)) is None:
                    continue
                before = taken_from.get(key)
                carried = 1.0 if before is None else self.asking.carried(before, newer)
                for each, score in self._met(older, newer, link, carried):
                    self.scores[each] = _rounded(score)
                    changed.add(each)
                    if each == link.key:
                        taken_from[each] = older
                        self._note(older, link)
        return changed

    def _note(self, older: ScoredCandidate, link: SuccessionLink) -> None:
        if link.confidence < self.settings.min_confidence:
            self.noted[link.key] = NewerThan(older.candidate.key, older.memory.id, "noted")
        else:
            self.noted.pop(link.key, None)

    def _newer(self, older: ScoredCandidate, link: SuccessionLink) -> ScoredCandidate | None:
        """The newer memory of the link, where it may take the older one's place."""
        key, newer = older.candidate.key, self.by_key.get(link.key)
        if newer is None or link.at > self.now or self._score(link.key) > self._score(key):
            return None
        if key in self.timed and newer.memory.told:
            return None
        if self.only_plans and not changes_plan(older.memory, link):
            return None
        if link.by == "rule" and len(older.memory.text) + len(newer.memory.text) > 2 * MOST_STATED:
            return None
        return None if speaks_less_of(older, newer) else newer

    def _met(
        self, older: ScoredCandidate, newer: ScoredCandidate, link: SuccessionLink, carried: float
    ) -> Iterator[tuple[int, float]]:
        """The scores that change, by key: the newer one gets the older one's as far as it succeeds it.

        `carried` is the share that it gets of what the older one has itself taken from another.
        """
        key, own, theirs = older.candidate.key, self._score(link.key), self._score(older.candidate.key)
        best = theirs if carried >= 1.0 else older.score + carried * (theirs - older.score)
        if own > best or not (changed := share_changed(self.asking, older, newer, link)):
            return
        if link.confidence < self.settings.min_confidence:
            yield link.key, own + self.settings.likeness * link.confidence * (best - own)
            return
        if changes_plan(older.memory, link):
            changed = 1.0  # of what is not on then nothing else holds either
        # They meet between their scores, the nearer to the older one's the more confident. Of several successors
        # the one that fits the question best by itself is first.
        meeting = own + min(1.0, _LEAST_SHARE + link.confidence) * changed * (best - own)
        if carried >= 1.0 and link.confidence * changed >= _SURE:
            yield key, min(best, meeting - STEP)
        yield link.key, min(1.0, meeting + STEP + _OWN_SHARE * own * (1 - meeting))


def _reason(score: float, lift: Lift | None) -> NewerThan | None:
    """Why it has moved, where it is the lift that gives it its score."""
    return (
        None
        if lift is None or score != lift.score
        else NewerThan(lift.over.candidate.key, lift.over.memory.id, "alike")
    )


def _rounded(score: float) -> float:
    """The score to 6 digits, and neither 0 nor 1: what a part with a weight can give."""
    return min(max(round(score, 6), STEP), 1.0 - STEP)


def _with_moved_times(
    by_key: Mapping[int, ScoredCandidate], settings: Succession, now: float
) -> dict[int, ScoredCandidate]:
    """The candidates whose told time may not hold any more, or that say so of another, with less for it.

    What was moved or cancelled is not on then; nor is the cancelling. It is still worth a place: of several times
    that it tells one was moved.
    """
    changed: dict[int, ScoredCandidate] = {}
    for key, item in by_key.items():
        if not item.parts.get(TOLD):
            continue
        succeeded = links_in_force(item.memory.succeeded_by, now=now, least=settings.min_confidence)
        ends = links_in_force(item.memory.succeeds, now=now, least=settings.min_confidence)
        if any(cues_of(link) & {"shift", "end"} for link in succeeded) or any(
            cues_of(link) == _ENDS for link in ends
        ):
            parts = {**item.parts, TOLD: _STILL_TOLD * item.parts[TOLD]}
            changed[key] = replace(item, parts=parts, score=round(combine(parts, item.weights), 6))
    return changed


def moved(item: ScoredCandidate, score: float, newer_than: NewerThan | None = None) -> ScoredCandidate:
    """The item with another score, to 6 digits: the part `succession` is 1 or 0, with the weight that gives it.

    `newer_than` is why, where it is no succession.
    """
    parts, weights = dict(item.parts.items()), dict(item.weights)
    parts.pop(PART, None)
    weights.pop(PART, None)
    score = _rounded(score)
    moving = moving_part(sum([weights[name] for name in parts]), combine(parts, weights), score)
    if moving is not None:
        parts[PART], weights[PART] = moving
    return ScoredCandidate(
        candidate=item.candidate,
        memory=item.memory,
        score=score,
        parts=parts,
        weights=weights,
        outdated=item.outdated,
        newer_than=newer_than or item.newer_than,
    )


def moving_part(whole: float, before: float, score: float) -> tuple[float, float] | None:
    """The value of the part `succession` and the weight with which it gives the score; None: it is that already.

    `whole` is the sum of the other parts' weights, `before` the score without it.
    """
    if score > before:
        return 1.0, whole * (score - before) / (1.0 - score)
    if score < before:
        return 0.0, whole * (before - score) / score
    return None


def _in_time_order(
    by_key: dict[int, ScoredCandidate], settings: Succession, now: float
) -> dict[int, ScoredCandidate]:
    """Memories that succeed each other share the place of the best of them, the older before the newer."""
    group: dict[int, int] = {key: key for key in by_key}

    def root(key: int) -> int:
        while group[key] != key:
            key = group[key]
        return key

    for key, item in by_key.items():
        for link in links_in_force(item.memory.succeeded_by, now=now, least=settings.min_confidence):
            if link.key in group:
                group[root(link.key)] = root(key)
    together: dict[int, list[int]] = {}
    for key in by_key:
        together.setdefault(root(key), []).append(key)
    changed = dict(by_key)
    for keys in together.values():
        if len(keys) == 1:
            continue
        best = max(by_key[key].score for key in keys)
        keys.sort(key=lambda one: (by_key[one].memory.ts or 0.0, by_key[one].memory.id))
        for place, key in enumerate(keys):
            changed[key] = moved(by_key[key], best - place * STEP)
    return changed
