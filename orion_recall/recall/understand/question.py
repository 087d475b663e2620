"""The question of a query: the text to embed, the keywords, the clock, the class, the names and the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from orion_recall.contracts import RecallQueryV1
from orion_recall.models.language import DEFAULT, Language, language_of
from orion_recall.profile import Profile
from orion_recall.recall.understand.answer_types import answer_type
from orion_recall.recall.understand.chains import chains
from orion_recall.recall.understand.classes import FACTUAL, Classified, classify
from orion_recall.recall.understand.entities import NamedEntity, entities
from orion_recall.recall.understand.expansion import expansions
from orion_recall.recall.when.times import times
from orion_recall.text.normal import STOP_WORDS, content_words, text_hash, without_possessive, words
from orion_recall.text.zones import time_zone
from orion_recall.values import NO_TIME, Question, QuestionTime

# What lies beyond is neither embedded (256 tokens) nor worth the time; the decision records the whole length.
_SEARCHED_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Understanding:
    """The question, and its one speaker, as written, when it names exactly one.

    `people` are all the speakers it names, as written; `entities` whom and what else it names, in its own spelling.
    """

    question: Question
    named_speaker: str | None
    classified: Classified = FACTUAL
    language: Language = DEFAULT
    people: tuple[str, ...] = ()
    entities: tuple[NamedEntity, ...] = ()


def understand(query: RecallQueryV1, profile: Profile, *, now: float, speakers: frozenset[str]) -> Understanding:
    """The query as the sources need it.

    A speaker's name drags a dense search to the turns that address that person, so names are taken out of the
    text that is embedded (unless nothing would be left); the keyword search keeps them.
    """
    text = query.fragment[:_SEARCHED_CHARS]
    intent = (query.intent or "")[:_SEARCHED_CHARS]
    terms = frozenset(content_words(f"{text} {intent}"))
    said = words(text)
    language = language_of(said)
    named = _named(said, speakers)
    time = _time(text, query, profile, now, speakers)
    keyword_text = " ".join(part for part in (text, intent) if part)
    if profile.enable_query_expansion:
        further = expansions(text, speakers, terms)
        keyword_text = " ".join((keyword_text, *further))
        terms = terms.union(further)
    return Understanding(
        question=Question(
            text=text,
            dense_text=_without(text, {word for said in named.values() for word in said}) if named else text,
            keyword_text=keyword_text,
            terms=terms,
            now=now,
            text_hash=text_hash(text),
            session_id=query.session_id,
            node_id=query.node_id,
            time=time,
            answer_type=answer_type(text, said, language=language, known=_name_words(speakers)),
            chains=chains(text) if profile.graph.paths else (),
        ),
        named_speaker=next(iter(named)) if len(named) == 1 else None,
        classified=classify(said, time, now=now, language=language),
        language=language,
        people=tuple(named),
        entities=entities(text, tuple(named), language=language),
    )


def _time(text: str, query: RecallQueryV1, profile: Profile, now: float, speakers: frozenset[str]) -> QuestionTime:
    try:
        clock = datetime.fromtimestamp(now, _zone(query))
    except (OverflowError, ValueError, OSError):
        return NO_TIME  # a clock beyond the calendar: nothing is relative to it
    return times(
        text,
        clock,
        names=_name_words(speakers),
        south=profile.time.hemisphere == "south",
        day_first=profile.time.day_first,
    )


def _zone(query: RecallQueryV1) -> tzinfo:
    """The zone that the query names, else that of its own "now"."""
    options = query.options
    if options is None:
        return UTC
    if options.timezone is not None:
        return time_zone(options.timezone)
    return (options.as_of.tzinfo if options.as_of else None) or UTC


@lru_cache(maxsize=64)
def _name_words(speakers: frozenset[str]) -> frozenset[str]:
    return frozenset(word for speaker in speakers for word in words(speaker))


@lru_cache(maxsize=64)
def _by_first_name(speakers: frozenset[str]) -> Mapping[str, Sequence[tuple[str, tuple[str, ...]]]]:
    """The speakers, as written and in words, by the first word of their names."""
    names: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for speaker in sorted(speakers):
        if name := tuple(words(speaker)):
            names.setdefault(name[0], []).append((speaker, name))
    return names


def _named(said: Sequence[str], speakers: frozenset[str]) -> Mapping[str, frozenset[str]]:
    """The speakers whom the words name, as written, each with the words that name them.

    A full name wins over the first name in it, a first name that several bear names them all, and a stop word
    ("Will", "The Doctor") names nobody alone.
    """
    names = _by_first_name(speakers)
    asked = tuple(without_possessive(word) for word in said)
    named: dict[str, frozenset[str]] = {}
    for place, word in enumerate(asked):
        bearers = names.get(word, ())
        whole = [len(name) for _, name in bearers if asked[place : place + len(name)] == name]
        length = max(whole, default=1)
        if length == 1 and word in STOP_WORDS:
            continue
        said = asked[place : place + length]
        for speaker, name in bearers:
            if not whole or name == said:
                named[speaker] = named.get(speaker, frozenset()).union(said)
    return named


def _without(text: str, names: Set[str]) -> str:
    kept = [part for part in text.split() if without_possessive(part.casefold().strip('.,;:!?"“”()')) not in names]
    rest = " ".join(kept)
    return rest if content_words(rest) else text
