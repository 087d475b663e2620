"""The class of a question, one of seven, and the words that decide it.

classify(words("How should we staff the Christmas peak?"), NO_TIME) -> planning, ("how should",)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from orion_recall.models.language import DEFAULT, Language
from orion_recall.recall.understand.cues import CUES, ROLES, Cue, Cues
from orion_recall.text.normal import without_possessive
from orion_recall.values import NO_TIME, QueryClass, QuestionTime
from orion_recall.when.sessions import session_words

# Of classes for which as much is said, the first: the more special the question, the more it needs.
_PRECEDENCE: tuple[QueryClass, ...] = (
    "meta",
    "procedural",
    "planning",
    "prospective",
    "temporal",
    "relational",
)
_LEAST = 2
_MOST_WORDS = 300
_ASKS_WHEN, _NAMES_TIME, _LIES_AHEAD, _LOOKS_AHEAD, _ROLE = 4, 2, 1, 3, 2
_DETERMINERS = frozenset("the a an his her its their our my your this that whose".split())
_BE = frozenset("is are was were be".split())


class Classified(NamedTuple):
    """The class, and the words that decided it: as the question has them, folded; none for `factual`."""

    query_class: QueryClass
    words: tuple[str, ...]


FACTUAL = Classified("factual", ())


def classify(
    said: Sequence[str], time: QuestionTime = NO_TIME, *, now: float = 0.0, language: Language = DEFAULT
) -> Classified:
    """The class with the highest weight, `factual` when no class has a weight of 2.

    `said` are the folded words of the question, of which the first 300 are read. What it says of `time` counts as
    words do; an interval that begins after `now` speaks for what is still to be done as well.
    """
    said = tuple(islice(said, _MOST_WORDS))
    weights: dict[QueryClass, int] = {}
    reasons: dict[QueryClass, list[str]] = {}

    def note(query_class: QueryClass, weight: int, words: str) -> None:
        weights[query_class] = weights.get(query_class, 0) + weight
        reasons.setdefault(query_class, []).append(words)

    for place, length, query_class, weight in _found(said, CUES.get(language, CUES[DEFAULT])):
        note(query_class, weight, " ".join(said[place : place + length]))
    for place, word in enumerate(said):
        if word in ROLES and (words := _role(said, place)) is not None:
            note("relational", _ROLE, words)
    if time.asks_when:
        note("temporal", _ASKS_WHEN, "when")
    for interval in time.intervals[:1]:
        note("temporal", _NAMES_TIME, interval.words)
        if interval.start is not None and interval.start > now:
            note("prospective", _LIES_AHEAD, interval.words)
        if time.alone and time.of == "told":
            note("prospective", _LOOKS_AHEAD, interval.words)
    if time.session is not None:
        note("temporal", _NAMES_TIME, f"{session_words(time.session)} session")
    if not weights:
        return FACTUAL
    best = max(weights, key=lambda one: (weights[one], -_PRECEDENCE.index(one)))
    if weights[best] < _LEAST:
        return FACTUAL
    return Classified(best, tuple(dict.fromkeys(reasons[best])))


def _found(said: Sequence[str], cues: Cues) -> list[tuple[int, int, QueryClass, int]]:
    """Place, length, class and weight of every cue; of a class, words that a longer cue holds count once."""
    found: list[tuple[int, int, QueryClass, int]] = []
    read_to: dict[QueryClass, int] = {}
    for place, word in enumerate(said):
        if (by_second := cues.get(word)) is None:
            continue
        second = said[place + 1] if place + 1 < len(said) else ""
        for cue in (
            *by_second.get(second, ()),
            *by_second.get(None, ()),
            *(by_second.get("", ()) if second else ()),
        ):
            after = place + 1 + len(cue.rest)
            if read_to.get(cue.query_class, 0) <= place and _is_said(cue, said, place + 1):
                found.append((place, after - place, cue.query_class, cue.weight))
                read_to[cue.query_class] = after
    return found


def _is_said(cue: Cue, said: Sequence[str], place: int) -> bool:
    heard = said[place : place + len(cue.rest)]
    return len(heard) == len(cue.rest) and all(
        wanted is None or wanted == word for wanted, word in zip(cue.rest, heard, strict=True)
    )


def _role(said: Sequence[str], place: int) -> str | None:
    """ "Ana's sister", "the wife of", "who is our contact" ask for a relation; "my teacher said" does not."""
    before, first = (said[place - 1] if place else ""), (said[place - 2] if place > 1 else "")
    if without_possessive(before) != before and not _is_short_for_is(before):
        return f"{before} {said[place]}"
    if before in _DETERMINERS and place + 1 < len(said) and said[place + 1] == "of":
        return f"{said[place]} of"
    return f"{first} {before} {said[place]}" if before in _DETERMINERS and first in _BE else None


def _is_short_for_is(word: str) -> bool:
    return without_possessive(word) in ("it", "that", "what", "who", "where", "how", "there", "he", "she", "let")
