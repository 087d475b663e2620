"""What is handed over: the confidence of an answer, whether it is unsure, and what a profile withholds.

The probability that anything found answers is a logistic regression over a few signals: how near the nearest memory
is, how far it stands out, and how much of the question's words were found. Its weights are `answer_model.json`.

The confidence of an item is made of five factors in [0, 1], weighted by the specification's formula:

overall = 0.35 semantic relevance + 0.25 source quality + 0.15 recency + 0.15 consistency + 0.10 completeness

A score is relative to the best candidate of its query; a confidence can be compared with a threshold.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from orion_recall.contracts.recall import NoAnswerReason, NoAnswerV1, RecallQueryV1
from orion_recall.profile import Profile
from orion_recall.profile.sections import NoAnswer
from orion_recall.recall.bundle.select import DropReason, Selection
from orion_recall.recall.candidates.fuse import decay_of
from orion_recall.recall.search.all_sources import SILENT
from orion_recall.recall.types import PassResult
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Column, ScoredCandidate
from orion_recall.sources.record import MemoryUse
from orion_recall.text.normal import STOP_WORDS, content_words, stems, stems_of_statement, words
from orion_recall.text.small_talk import small_talk
from orion_recall.values import MemoryView, Question, SourceName

Level = Literal["low", "medium", "high"]

MEDIUM_FROM, HIGH_FROM = 0.5, 0.75

# The source quality of a memory by its kind; _OTHER_QUALITY for other kinds and for none.
QUALITY: Mapping[str, float] = {
    "world": 0.9,
    "experience": 0.85,
    "observation": 0.85,
    "procedure": 0.8,
    "plan": 0.7,
    "task": 0.7,
    "opinion": 0.6,
}
_OTHER_QUALITY = 0.7
_FOUND_TWICE = 0.05
_UNSURE_SENDER, _FEEDBACK, _IN_ANSWERS = 0.6, 0.4, 0.05
NO_USE = MemoryUse()
NEVER_USED: Mapping[str, MemoryUse] = {}

TOLD_ONCE, CONFIRMED, DOUBTED = 0.7, 1.0, 0.3
CONFIRMING_TAGS = frozenset({"confirmed", "verified"})
DOUBTING_TAGS = frozenset({"contradicted", "disputed", "doubtful", "outdated", "unconfirmed", "unverified"})


class Confidence(NamedTuple):
    """The five factors of one item, and `overall` (rounded to 1e-6) as a number and as a level."""

    overall: float
    level: Level
    semantic_relevance: float
    source_quality: float
    recency: float
    consistency: float
    completeness: float


def confidences(
    items: Iterable[ScoredCandidate],
    among: Sequence[ScoredCandidate],
    question: Question,
    profile: Profile,
    *,
    repeated: Collection[int] = (),
    uses: Mapping[str, MemoryUse] = NEVER_USED,
) -> dict[int, Confidence]:
    """The confidence of each item, by its memory's key.

    `among` are all items ranked with them: one that the dense search did not reach counts as the farthest that it
    did. `repeated` are the keys of items that a near-duplicate repeats, `uses` is how memories were used, by id.
    """
    items, farthest, asked = list(items), None, frozenset[str]()
    if any("vector" not in item.candidate.scores for item in items):
        reached = (item.candidate.scores.get("vector") for item in among)
        farthest = min((cosine for cosine in reached if cosine is not None), default=None)
        asked = stems(frozenset(content_words(question.text))) if farthest is None else asked
    decay = decay_of(profile, question.now)
    return {
        item.candidate.key: confidence(
            relevance=semantic_relevance(item, asked, farthest=farthest),
            quality=source_quality(item, uses.get(item.memory.id, NO_USE)),
            recency=decay(item.memory),
            consistency=consistency(item.memory.tags, is_repeated=item.candidate.key in repeated),
            completeness=completeness(item.memory),
        )
        for item in items
    }


def confidence(
    *, relevance: float, quality: float, recency: float, consistency: float, completeness: float
) -> Confidence:
    """The confidence by the formula; low under 0.5, medium under 0.75, else high."""
    overall = 0.35 * relevance + 0.25 * quality + 0.15 * recency + 0.15 * consistency + 0.1 * completeness
    overall = round(overall, 6)
    level = "high" if overall >= HIGH_FROM else "medium" if overall >= MEDIUM_FROM else "low"
    return Confidence(overall, level, relevance, quality, recency, consistency, completeness)


def semantic_relevance(item: ScoredCandidate, asked: frozenset[str], *, farthest: float | None) -> float:
    """How close the memory is to the question: the reranker's score, else its cosine, negative ones as 0; without a
    dense search the share of the question's stems, `asked`, that the memory or its statements have."""
    if (judged := item.parts.get("rerank")) is not None:
        return judged
    near = item.candidate.scores.get("vector", farthest)
    if near is not None:
        return min(max(near, 0.0), 1.0)
    memory = item.memory
    said = " ".join(filter(None, (memory.title, memory.speaker, memory.text, *item.candidate.statements)))
    return len(asked & stems(frozenset(content_words(said)))) / len(asked) if asked else 0.0


def source_quality(item: ScoredCandidate, use: MemoryUse = NO_USE) -> float:
    """The quality of its kind; 0.05 more when several sources found it; down to 0.6 of that where its sender was
    not sure; up to 0.2 more or less by feedback; up to 0.05 more for having been among the first of many
    answers."""
    kind, sender = item.memory.guessed_kind or item.memory.kind, item.memory.confidence
    quality = QUALITY.get(kind or "", _OTHER_QUALITY) + (_FOUND_TWICE if len(item.candidate.ranks) > 1 else 0.0)
    if sender is not None:
        quality *= _UNSURE_SENDER + (1 - _UNSURE_SENDER) * sender
    if use is not NO_USE:
        quality += _FEEDBACK * ((use.used + 1) / (use.used + use.wrong + 2) - 0.5)
        quality += min(_IN_ANSWERS, 0.01 * math.log2(1 + use.accesses))
    return min(max(quality, 0.0), 1.0)


def consistency(tags: Collection[str], *, is_repeated: bool) -> float:
    """1 when a tag or another memory confirms the memory, 0.3 when a tag doubts it, else 0.7."""
    if not DOUBTING_TAGS.isdisjoint(tags):
        return DOUBTED
    return CONFIRMED if is_repeated or not CONFIRMING_TAGS.isdisjoint(tags) else TOLD_ONCE


def completeness(memory: MemoryView) -> float:
    """The share of five things that are known: its time, its speaker or title, its origin, names, tags."""
    known = 0 if memory.ts is None else 1
    known += bool(memory.speaker or memory.title)
    known += bool(memory.session_id or memory.source_ref or memory.uri)
    return (known + bool(memory.entities) + bool(memory.tags)) / 5


MIN_PROBABILITY = 0.12
"""The minimum of a query that wants one (`options.no_answer`) where the profile has none."""
UNSURE_NOTE = "Nothing remembered clearly answers this; the nearest:"
"""The line before the items of an unsure reply, where the profile wants one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerConfidence:
    """The confidence of every item of the bundle, by key, and of the answer; None when there is no item.

    `probability` is that anything found answers, of these `signals`; None where that cannot be told: a question
    that only names a time has no words that a memory could lack, and without the index there is nothing to compare.
    """

    items: Mapping[int, Confidence]
    overall: float | None
    probability: float | None = None
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


NO_CONFIDENCE = AnswerConfidence(items={}, overall=None)


class Answer(NamedTuple):
    """What is handed over, its confidence, whether it is unsure (`has_note`: the rendered text says so), and why it
    is withheld, where it is."""

    selection: Selection
    confidence: AnswerConfidence
    is_unsure: bool = False
    has_note: bool = False
    withheld: NoAnswerV1 | None = None


def asks_nothing(query: RecallQueryV1, understood: Understanding, profile: Profile) -> NoAnswerV1 | None:
    """Why nothing is searched for: there is no word to search for, or it is small talk."""
    if query.intent and words(query.intent):
        return None
    said = understood.question.text.strip().casefold()  # a letter alone is no word, but "C++?" may be a name
    is_letter = len(said) == 1 and said.isascii() and said.isalpha()
    if is_letter or said in STOP_WORDS or not any(map(str.isalnum, said)):
        return NoAnswerV1(reason="no_words", near_misses=0)
    names = {word for name in understood.people for word in words(name)}
    if profile.no_answer.greetings and (kind := small_talk(query.fragment, names)) is not None:
        return NoAnswerV1(reason=kind, near_misses=0)
    return None


def answer_of(
    selection: Selection,
    confidence: AnswerConfidence,
    understood: Understanding,
    result: PassResult,
    profile: Profile,
    *,
    wanted: bool | None,
    room_tokens: int,
    has_external: bool,
) -> Answer:
    """The answer that a selection is.

    `wanted` is the query's `no_answer`: True withholds an unsure answer, False hands everything over. A recap
    answers with whatever is of its time. `room_tokens` are left of the budget after the note. Of an external
    store's hits (`has_external`) hardly any signal is known.
    """
    if understood.is_recap:
        return Answer(selection=selection, confidence=confidence)
    if not has_external:
        signals = answer_signals(understood, result)
        probability = probability_of(signals) if signals else None
        confidence = replace(confidence, probability=probability, signals=signals)
    least = profile.no_answer  # or what the query wants instead: False for none, True for one in any case
    if wanted is False:
        least = NoAnswer()
    elif wanted and not least.is_on:
        least = NoAnswer(min_probability=profile.unsure_below or MIN_PROBABILITY)
    if (withheld := _below(selection, confidence, least)) is not None:
        dropped: dict[DropReason, int] = {"no_answer": len(selection.items) + sum(selection.dropped.values())}
        keys = [*selection.left_out, *(item.scored.candidate.key for item in selection.items)]
        nothing = Selection(items=(), tokens=0, dropped=dropped, left_out=dict.fromkeys(keys, "no_answer"))
        return Answer(selection=nothing, confidence=confidence, withheld=withheld)
    probability = confidence.probability
    if wanted is False or probability is None or probability >= profile.unsure_below or not selection.items:
        return Answer(selection=selection, confidence=confidence)
    nearest = _nearest(selection, profile.unsure_items)
    has_note = profile.when_unsure == "note" and nearest.tokens <= room_tokens
    return Answer(selection=nearest, confidence=confidence, is_unsure=True, has_note=has_note)


def _below(selection: Selection, confidence: AnswerConfidence, least: NoAnswer) -> NoAnswerV1 | None:
    if not least.is_on or confidence.overall is None:
        return None
    numbers: tuple[tuple[NoAnswerReason, float | None, float], ...] = (
        ("below_min_probability", confidence.probability, least.min_probability),
        ("below_min_confidence", confidence.overall, least.min_confidence),
        ("below_min_score", max(item.scored.score for item in selection.items), least.min_score),
    )
    for reason, value, minimum in numbers:
        if value is not None and value < minimum:
            return NoAnswerV1(reason=reason, value=value, minimum=minimum, near_misses=len(selection.items))
    return None


def _nearest(selection: Selection, most: int) -> Selection:
    kept, further = selection.items[:most], selection.items[most:]
    if not further:
        return selection
    left_out: dict[int, DropReason] = {**selection.left_out}
    left_out |= dict.fromkeys([item.scored.candidate.key for item in further], "unsure")
    dropped: dict[DropReason, int] = {**selection.dropped, "unsure": len(further)}
    return Selection(items=kept, tokens=sum(item.tokens for item in kept), dropped=dropped, left_out=left_out)


def answer_confidence(
    kept: Sequence[ScoredCandidate], confidences: Mapping[int, Confidence], *, firsts: Collection[int] = ()
) -> AnswerConfidence:
    """The answer's confidence: that of the first item kept; after a cascade, the highest of the layers'
    `firsts`."""
    if not kept:
        return NO_CONFIDENCE
    items = {item.candidate.key: confidences[item.candidate.key] for item in kept}
    overall = max(
        [items[key].overall for key in firsts if key in items], default=items[kept[0].candidate.key].overall
    )
    return AnswerConfidence(items=items, overall=overall)


_NEXT = 10
_DIGITS = 6
_LEAST_LOGIT = -700.0
_NEEDED: tuple[SourceName, ...] = ("vector", "lexical")


@cache
def _model() -> Mapping[str, Any]:
    """Intercept and weight of each signal, in logits, with late interaction and without."""
    return json.loads(Path(__file__).with_name("answer_model.json").read_text(encoding="utf-8"))


def probability_of(signals: Mapping[str, float]) -> float:
    """The probability that anything found answers, by its signals, rounded to 1e-6."""
    weights = _model()["late" if "late" in signals else "without_late"]
    logit = weights["intercept"] + sum(weight * signals[name] for name, weight in weights["signals"].items())
    return round(1 / (1 + math.exp(-logit)) if logit > _LEAST_LOGIT else 0.0, _DIGITS)


def answer_signals(understood: Understanding, result: PassResult) -> Mapping[str, float]:
    """The signals of whether anything that the pass found answers the question; none where that cannot be told."""
    if not result.scored or any(
        report.source in _NEEDED and report.status in ("off", *SILENT) for report in result.reports
    ):
        return {}
    asked = _telling(understood)
    if not asked or understood.question.time.alone:
        return {}
    return {name: round(value, _DIGITS) for name, value in _signals(asked, result).items()}


def _telling(understood: Understanding) -> frozenset[str]:
    """The stems of what is asked, without stop words, words of an understood time, and whose words are wanted."""
    question, said = understood.question, understood.said_by
    if said is not None and said.is_strict:
        return stems(frozenset(content_words(said.topic)))
    timed = {word for interval in question.time.intervals for word in words(interval.words)}
    return stems(frozenset(word for word in content_words(question.text) if word not in timed))


def _signals(asked: frozenset[str], result: PassResult) -> Mapping[str, float]:
    memories = [item.memory for item in result.scored]
    # Most have few of the words, and many the same ones.
    having = Counter([asked & stems_of_statement(one.speaker, one.title, one.text) for one in memories])
    counts = dict.fromkeys(asked, 0)
    for stems_had, times in having.items():
        for stem in stems_had:
            counts[stem] += times
    # A word that many have says little of whether one of them answers.
    weights = {stem: math.log1p(len(memories) / (0.5 + counts[stem])) for stem in sorted(asked)}
    total = sum(weights.values())
    keys = [item.candidate.key for item in result.scored]
    scores = [item.candidate.scores for item in result.scored]
    closeness: Column = [*map(result.closeness.get, keys)]
    by_meaning: Column = [one.get("vector") for one in scores]
    by_words: Column = [one.get("lexical") or None for one in scores]
    late = [one for one in closeness if one is not None]
    cosines = [one for one in by_meaning if one is not None]
    return {
        **({"late": max(late), "late_margin": _margin(late)} if late else {}),
        "cosine": max(cosines, default=0.0),
        "cosine_margin": _margin(cosines),
        "found": sum([weight for stem, weight in weights.items() if counts[stem]]) / total,
        "found_in_one": max([sum([weights[stem] for stem in one]) for one in having]) / total,
        "agreement": _agreement(keys, closeness, [cosine or None for cosine in by_meaning], by_words),
    }


def _margin(values: Sequence[float]) -> float:
    """How far the best is above the mean of the next ten."""
    best, *further = sorted(values, reverse=True)[: _NEXT + 1] or [0.0]
    return best - sum(further) / len(further) if further else 0.0


def _agreement(keys: Sequence[int], *columns: Column) -> float:
    """The share of pairs of late interaction, meaning and words that put the same memory first; what they did not
    find has None."""
    known = [
        [(value, key) for key, value in zip(keys, column, strict=True) if value is not None] for column in columns
    ]
    firsts = [max(found)[1] for found in known if found]
    pairs = [one == other for place, one in enumerate(firsts) for other in firsts[:place]]
    return sum(pairs) / len(pairs) if pairs else 0.0
