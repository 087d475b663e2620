"""Clauses of a text that say a change: phrases of change where they mean one, without questions and causes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from orion_recall.memory.succession.word_lists import ADDITIONS, CUES, IDIOMS, LEAVES, CueKind
from orion_recall.text.normal import STOP_WORDS

Heard = CueKind | Literal["adds", "leaves"]
Phrases = Mapping[str, tuple[tuple[Heard, tuple[str, ...]], ...]]
"""Phrases by their first word: what each says, and its further words; `_` is any."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+|; ")
# "Because of Genoa I've pushed your script back": Genoa is why, and not what.
_CAUSE = re.compile(
    r"\b(?:because of|due to|owing to|thanks to|on account of|wegen|à cause de|a causa de)\b.{0,60}?"
    r"(?=[,.;:!?]|\b(?:i|we|he|she|they|it)\b|$)"
)
_HAPPENED: frozenset[Heard] = frozenset(("end", "shift", "amount"))
_NOT_YET = frozenset("never not when whenever if unless don't didn't won't doesn't isn't until before".split())
_NEGATED = frozenset(("any more", "anymore", "any longer"))
_NO = frozenset("not no never nobody nothing none without cannot can't hardly".split())


def _read_phrases() -> Phrases:
    found: dict[str, list[tuple[Heard, tuple[str, ...]]]] = {}
    listed: list[tuple[Heard, str]] = [*CUES.items(), ("adds", ADDITIONS), ("leaves", LEAVES)]
    for kind, text in listed:
        for phrase in text.split("|"):
            first, *rest = phrase.replace("-", " ").split()
            found.setdefault(first, []).append((kind, tuple(rest)))
    return {first: tuple(dict.fromkeys(phrases)) for first, phrases in found.items()}


_PHRASES = _read_phrases()
_IDIOMS = tuple(tuple(phrase.split()) for phrase in IDIOMS.split("|"))


def sentences_of(text: str) -> list[str]:
    """The sentences of a text."""
    return [one for one in _SENTENCE_END.split(text) if one.strip()]


def without_causes(folded: str) -> str:
    """The folded text without what is named as a cause alone."""
    return _CAUSE.sub(" ", folded)


def heard_in(said: Sequence[str]) -> frozenset[Heard]:
    """What the phrases in the folded words say. "Never stop", "when we close" and "fired up" say no change."""
    return frozenset(phrases_in(said))


def phrases_in(said: Sequence[str]) -> dict[Heard, str]:
    """The phrases of change in the folded words, the first of each kind, as they are said."""
    found: dict[Heard, str] = {}
    idle = _idle(said)
    for place, word in enumerate(said):
        if place in idle:
            continue
        for kind, rest in _PHRASES.get(word, ()):
            if kind in found or (kind in _HAPPENED and not _NOT_YET.isdisjoint(said[max(0, place - 3) : place])):
                continue
            end = place + 1 + len(rest)
            after = said[place + 1 : end]
            if len(after) != len(rest) or not all(
                one in ("_", other) for one, other in zip(rest, after, strict=True)
            ):
                continue
            if " ".join((word, *rest)) not in _NEGATED or _is_over(said, place, end):
                found[kind] = " ".join(said[place:end])
    return found


def _idle(said: Sequence[str]) -> set[int]:
    """The places of words in phrases that mean something else than their words."""
    starts = {phrase[0] for phrase in _IDIOMS}.intersection(said)
    if not starts:
        return set()
    return {
        place + further
        for place, word in enumerate(said)
        if word in starts
        for phrase in _IDIOMS
        if tuple(said[place : place + len(phrase)]) == phrase
        for further in range(len(phrase))
    }


def _is_over(said: Sequence[str], start: int, end: int) -> bool:
    """Whether "any more" says that something is over: "not here any more", and not "waste any more time"."""
    is_last = end >= len(said) or said[end] in STOP_WORDS
    return is_last and any(word in _NO or word.endswith("n't") for word in said[:start])
