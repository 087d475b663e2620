"""Newer memories of the same thing, for a question about now: nobody has to say "instead".

Of memories that are alike the newer one is preferred, in proportion to how alike they are: of "the line is 0147"
and "the duty manager's line: 0190" the later one counts. And where the best memory tells a value of the type that
the question asks for (a time, an amount, a number), a newer one that tells another value of it, shares rare words
with it, and says that something is so now, has moved or has changed goes before it: for "Which room is Ma in?" the
207 of February before the 114 of December. Names are no such values: most memories have some.

Both are done within what is alike, never across: a memory is not better for being young.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from orion_recall.memory.told_changes.terms import stem
from orion_recall.memory.told_changes.values import TIMED
from orion_recall.memory.told_changes.wishes import asks_for_wishes
from orion_recall.memory.told_changes.word_families import ONE_VALUED
from orion_recall.memory.told_changes.word_lists import GENERAL_WORDS
from orion_recall.recall.ranking.changed_part import AskedChanges
from orion_recall.recall.ranking.reading import READ_CHARS, Said, reading_of
from orion_recall.scoring.candidates import ScoredCandidate, ValueAsked
from orion_recall.text.normal import is_question, words
from orion_recall.values import Question

MOST_STATED = 400
"""Characters of a text that states one thing; a longer one is about many, and shares words with most others."""
_MOST_ALIKE = 16
"""Candidates that are compared with each other, from the best."""
_MARGIN = 0.25
_LEAST_ALIKE = 0.3
_LEAST_SHARE = 0.6
_SMALL_WEIGHT = 0.15
_FAMILY_WEIGHT = 1.5

_MOST = 100
"""Candidates among which a newer value is looked for."""
_RARE = 5
"""Memories among those that may have a word that still tells what a text is about."""
_LEAST = 2.4
_NAME_WEIGHT = 1.5
_SAME_FORM = 1.0
_LEAST_DIGITS = 3
_MOST_MOVED = 3
_TIMES: Final = frozenset(TIMED)
_AMOUNTS: Final = frozenset(("money", "number"))
_NUMBERS: Final = frozenset(("number",))
_NO_KINDS: Final[frozenset[str]] = frozenset()
_ASKS_TIME: Final = re.compile(
    r"\b(?:what|which) (?:time|day|date|evening|morning|afternoon|weekday)\b|\buntil when\b"
)
_ASKS_AMOUNT: Final = re.compile(
    r"\bhow much\b|\b(?:cost|costs|price|rent|fee|salary|budget)\b|\bwhat .* (?:pay|earn)\b"
)
_ASKS_NUMBER: Final = re.compile(r"\b(?:code|pin|number|room|extension|combination|version)\b")


class Lift(NamedTuple):
    """The better score of a newer memory, and the older one that it is alike to."""

    score: float
    over: ScoredCandidate


def newer_alike(scored: Sequence[ScoredCandidate], changes: AskedChanges, *, now: float) -> dict[int, Lift]:
    """The better scores of newer memories by key: they pass older ones that they are alike enough to.

    A wish is not preferred to what is so; a decision is to the wish before it, unless wishes are asked for.
    """
    best = [
        item for item in scored[:_MOST_ALIKE] if len(item.memory.text) <= MOST_STATED and states(item, until=now)
    ]
    if len(best) < 2:
        return {}
    read = [reading_of(item.memory).whole for item in best]
    weights = _weights(read)
    sizes = [_weight_of(said.stems, said.families, weights) for said in read]
    times = [(item.memory.ts or 0.0, item.memory.session_id) for item in best]  # `_states` leaves out undated ones
    wishes_count = asks_for_wishes(changes.asked)
    found: dict[int, Lift] = {}
    for place, older in enumerate(best):
        least, (began, session), one = _LEAST_SHARE * older.score, times[place], read[place]
        for other in range(place + 1, len(best)):
            newer, (later, of_newer) = best[other], times[other]
            if newer.score < least or later <= began or (of_newer is not None and of_newer == session):
                continue
            two = read[other]
            if speaks_less_of(older, newer) or (two.is_wish and not one.is_wish and not wishes_count):
                continue
            shared = _weight_of(two.stems & one.stems, two.families & one.families, weights)
            likeness = shared / (min(sizes[place], sizes[other]) or 1.0)
            if likeness < _LEAST_ALIKE or not changes.share(older, newer):
                continue
            if not changes.is_answered_by(older, newer):
                continue
            score = older.score + 1e-6
            if wishes_count or not one.is_wish or not two.decides:
                score = min(score, newer.score + _MARGIN * likeness)
            key = newer.candidate.key
            if score > (found[key].score if key in found else newer.score):
                found[key] = Lift(score, older)
    return found


def speaks_less_of(older: ScoredCandidate, newer: ScoredCandidate) -> bool:
    """Whether the older one is said by whom the question names, or by a person, and the newer one is not.

    What an assistant repeats is not newer than what it was told.
    """
    one, other = newer.parts, older.parts
    return one.get("speaker", 0.0) < other.get("speaker", 0.0) or one.get("role", 0.0) < other.get("role", 0.0)


def states(item: ScoredCandidate, *, until: float, since: float = -math.inf) -> bool:
    """Whether it states something, and is of that time."""
    memory = item.memory
    if memory.ts is None or not since < memory.ts <= until or memory.chatter:
        return False
    return not is_question(memory.text)


def _weights(texts: Sequence[Said]) -> Mapping[str, float]:
    """What each stem says of what a text is about: the rarer among these texts the more."""
    counts = Counter(one for text in texts for one in text.stems)
    rarity = {count: math.log1p(len(texts) / count) / math.log(2) for count in set(counts.values())}
    return {
        one: _SMALL_WEIGHT if one in GENERAL_WORDS or len(one) < 2 else rarity[count]
        for one, count in counts.items()
    }


def _weight_of(stems: frozenset[str], families: frozenset[str], weights: Mapping[str, float]) -> float:
    """The weight of what texts say."""
    return sum([weights[one] for one in stems]) + _FAMILY_WEIGHT * len(families & ONE_VALUED)


def asked_kinds(question: Question) -> frozenset[str]:
    """The types of value that the question asks for; none for one that asks for a name, or for anything."""
    folded = question.text.casefold()
    if question.time.asks_when or _ASKS_TIME.search(folded):
        return _TIMES
    if question.answer_type.number or _ASKS_AMOUNT.search(folded):
        return _AMOUNTS
    return _NUMBERS if _ASKS_NUMBER.search(folded) else _NO_KINDS


def kind_asked(question: Question) -> ValueAsked:
    """What the question asks for, of those that `asked_kinds` tells apart."""
    kinds = asked_kinds(question)
    return "time" if kinds is _TIMES else "amount" if kinds is _AMOUNTS else "number"


def newer_values(ranked: Sequence[ScoredCandidate], question: Question) -> tuple[ScoredCandidate, ...]:
    """The candidates that tell a newer value than the first one, newest first; `ranked` is best first."""
    if question.tense != "now" or len(ranked) < 2 or not (kinds := asked_kinds(question)):
        return ()
    first, among = ranked[0], ranked[:_MOST]
    if first.memory.ts is None:
        return ()
    if (part := _asked_part(first, question.text)) is None or kinds.isdisjoint(part.values):
        return ()
    later = [item for item in among[1:] if states(item, since=first.memory.ts, until=question.now)]
    if not later:
        return ()
    names = reading_of(first.memory).entities
    having = _having(part.telling - _speakers(among), among)
    rare = {one for one, keys in having.items() if len(keys) <= _RARE}
    candidates = set[int]().union(*(having[one] for one in rare))
    found = [
        (weight, item)
        for item in later
        if item.candidate.key in candidates and (weight := _weight(item, part, rare, names, kinds)) >= _LEAST
    ]
    most = max((weight for weight, _ in found), default=0.0)
    best = [item for weight, item in found if weight > most - _SAME_FORM / 2]
    best.sort(key=lambda item: (-(item.memory.ts or 0.0), item.candidate.key))
    return tuple(best[:_MOST_MOVED])


def _asked_part(first: ScoredCandidate, question: str) -> Said | None:
    """The statement that has most words of the question; None where none has any."""
    asked = Said(question).telling
    statements = reading_of(first.memory).statements
    best = max(statements, key=lambda part: len(part.telling & asked), default=None)
    return best if best is not None and best.telling & asked else None


def _speakers(items: Sequence[ScoredCandidate]) -> set[str]:
    names = {item.memory.speaker for item in items if item.memory.speaker}
    return {stem(word) for name in names for word in words(name)}


def _having(stems: frozenset[str] | set[str], items: Sequence[ScoredCandidate]) -> Mapping[str, set[int]]:
    """For each stem the keys of the memories with a word that begins so.

    They are looked for: to read every candidate whole would cost more than to rank them.
    """
    texts = [(item.candidate.key, item.memory.text[:READ_CHARS].casefold()) for item in items]
    return {one: {key for key, text in texts if one in text and _begins_a_word(one, text)} for one in stems}


def _begins_a_word(stem: str, text: str) -> bool:
    place = text.find(stem)
    while place > 0 and (text[place - 1].isalnum() or text[place - 1] == "_"):
        place = text.find(stem, place + 1)
    return place >= 0


def _weight(
    item: ScoredCandidate, part: Said, rare: set[str], names: frozenset[str], kinds: frozenset[str]
) -> float:
    """What speaks for it that the memory tells a newer value of what the part tells; 0 for nothing."""
    best = 0.0
    for one in reading_of(item.memory).statements:
        shared = rare & one.telling
        if not shared or not one.is_new:
            continue
        clash = [
            kind for kind in kinds if kind in part.values and one.values.get(kind, _NO_KINDS) - part.values[kind]
        ]
        if not clash:
            continue
        weight = 1.0 + sum(_NAME_WEIGHT if word in names else 1.0 for word in shared)
        if "number" in clash and _forms(part.values["number"]) & _forms(one.values["number"]):
            weight += _SAME_FORM
        best = max(best, weight)
    return best


def _forms(numbers: frozenset[str]) -> set[int]:
    """The numbers of digits of codes, rooms and the like."""
    return {len(one) for one in numbers if one.isdigit() and len(one) >= _LEAST_DIGITS}
