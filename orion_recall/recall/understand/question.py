"""The question of a query: the text to embed, the keywords, the clock, the class, the names and the time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from orion_recall.contracts import RecallQueryV1
from orion_recall.models.language import DEFAULT, Language
from orion_recall.profile import Profile
from orion_recall.recall.understand.answer_types import answer_type
from orion_recall.recall.understand.chains import chains
from orion_recall.recall.understand.classes import FACTUAL, Classified, classify
from orion_recall.recall.understand.context import names_in_context
from orion_recall.recall.understand.entities import NamedEntity, entities
from orion_recall.recall.understand.expansion import expansions
from orion_recall.recall.understand.in_english import in_english, language_asked
from orion_recall.recall.understand.kinds_asked import asks_for_calendar, asks_for_changes, asks_for_chatter
from orion_recall.recall.understand.lists import asks_for_list
from orion_recall.recall.understand.people import (
    asking_speaker,
    is_first_person,
    name_words,
    named_speakers,
    without_names,
)
from orion_recall.recall.understand.said_by import SaidBy, said_by
from orion_recall.recall.understand.tenses import asks_about, without_use_to
from orion_recall.recall.understand.time_alone import is_alone, keyword_text_of, without_times
from orion_recall.recall.understand.topics import topic_of
from orion_recall.recall.understand.walks import walks
from orion_recall.recall.understand.wording import plainly
from orion_recall.text.normal import content_words, text_hash, words
from orion_recall.text.people.introductions import asks_who
from orion_recall.text.people.kin import asks_family
from orion_recall.text.people.roles import asks_assistant
from orion_recall.text.zones import time_zone
from orion_recall.values import NO_TIME, Chain, Question, QuestionShape, QuestionTime
from orion_recall.when.times import times

# What lies beyond is neither embedded (256 tokens) nor worth the time; the decision records the whole length.
_SEARCHED_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Understanding:
    """The question, and its one speaker, as written, when it names exactly one.

    `asker` is the speaker that "I" means, as written. `said_by`: it asks for what somebody said.
    `who` is the name in "Who is Hana?", `asks_family`: it asks for a family as a whole.
    `people` are all the speakers it names, as written; `entities` whom and what else it names, in its own spelling.
    `shape`: it asks for a recap of a period, or for a list of all of a kind; None for one answer.
    `of_calendar`: it asks for all that is told of the time that it names. `of_changes`: it asks for a recap of what
    changed. `wants_chatter`: greetings, jokes or the
    weather are what it asks for. `asks_assistant`: it asks what an assistant said. `zone`: that of its times.
    """

    question: Question
    named_speaker: str | None
    classified: Classified = FACTUAL
    language: Language = DEFAULT
    people: tuple[str, ...] = ()
    entities: tuple[NamedEntity, ...] = ()
    shape: QuestionShape | None = None
    of_calendar: bool = False
    of_changes: bool = False
    wants_chatter: bool = False
    asks_assistant: bool = False
    asker: str | None = None
    said_by: SaidBy | None = None
    is_first_person: bool = False
    who: str | None = None
    asks_family: bool = False
    from_context: tuple[str, ...] = ()
    zone: str = "UTC"

    @property
    def is_said_by(self) -> bool:
        """Whether nothing but what one person said answers the question."""
        return self.said_by is not None and self.said_by.is_strict


def understand(query: RecallQueryV1, profile: Profile, *, now: float, speakers: frozenset[str]) -> Understanding:
    """The query as the sources need it.

    A speaker's name drags a dense search to the turns that address that person, so names are taken out of the
    text that is embedded (unless nothing would be left); the keyword search keeps them. Words of a time
    that is understood, such as "yesterday", are searched for in neither, and "can you remind me" is no part of a
    question (`wording`). One in another language is read in English (`in_english`), and searched for in both.
    """
    written = query.fragment[:_SEARCHED_CHARS]
    asked_in = language_asked(written)
    english = in_english(written, asked_in, name_words(speakers))
    text = plainly(written if english is None else english)
    intent = (query.intent or "")[:_SEARCHED_CHARS]
    said = words(text)
    language = asked_in if english is None else DEFAULT  # that of the words that are read
    named = named_speakers(text, said, speakers)
    who = asks_who(text)
    named_words = {word for name in named.values() for word in name}
    time = _time(text, query, profile, now, speakers)
    asker = asking_speaker(query.options.user if query.options else None, speakers, profile.callers)
    told = said_by(text, time, speakers=speakers, asker=asker)
    plain = topic_of(text) or without_use_to(text)
    searched = without_times(plain, time)
    if is_alone(searched, time, names=named_words, intent=intent):
        time = replace(time, alone=True)
    else:
        searched = without_times(plain, time, with_dates=True)
    searched = searched if words(searched) else text
    keywords = keyword_text_of(plain, searched, time)
    if told is not None and told.is_strict and told.topic:  # "What did Ana say" is no part of what she said
        searched, keywords = told.topic, f"{told.topic} {told.name}"
    called = entities(text, tuple(named), language=language)
    from_context = names_in_context(None, said, called, speakers, language=language)
    terms = frozenset(content_words(" ".join((keywords, intent, *from_context))))
    keyword_text = " ".join(part for part in (keywords, intent, *from_context) if part)
    dense_text = " ".join((without_names(searched, named_words) if named else searched, *from_context))
    if english is not None:  # memories may be in the language of the question as well
        dense_text, keyword_text = f"{dense_text} {written}", f"{keyword_text} {written}"
        terms = terms.union(content_words(written))
    if profile.enable_query_expansion:
        further = expansions(keywords, speakers, terms)
        keyword_text = " ".join((keyword_text, *further))
        terms = terms.union(further)
    shape = _shape(said, time, language)
    of_changes = shape == "recap" and asks_for_changes(said)
    return Understanding(
        question=Question(
            text=text,
            dense_text=dense_text,
            keyword_text=keyword_text,
            terms=terms,
            now=now,
            text_hash=text_hash(written),
            session_id=query.session_id,
            node_id=query.node_id,
            time=time,
            answer_type=answer_type(text, said, language=language, known=name_words(speakers)),
            tense="before" if of_changes else asks_about(said, time, now=now),
            chains=_chains(text, query, profile, named=called, time=time, asker=asker),
        ),
        named_speaker=None if who is not None else _one_speaker(named, told),  # others tell who somebody is
        asker=asker,
        said_by=told,
        is_first_person=asker is not None and is_first_person(said),
        who=who,
        asks_family=asks_family(frozenset(said)),
        classified=classify(said if english is None else words(written), time, now=now, language=asked_in),
        language=asked_in,
        people=tuple(named),
        entities=called,
        from_context=from_context,
        shape=shape,
        of_changes=of_changes,
        of_calendar=asks_for_calendar(said, time),
        wants_chatter=asks_for_chatter(said),
        asks_assistant=asks_assistant(said),
        zone=zone_name(query),
    )


def _chains(
    text: str,
    query: RecallQueryV1,
    profile: Profile,
    *,
    named: Sequence[NamedEntity],
    time: QuestionTime,
    asker: str | None,
) -> tuple[Chain, ...]:
    """The ways through the graph that the question asks for, as far as the profile has them on."""
    graph = profile.graph
    found = chains(text, asker) if graph.paths else ()
    if not graph.traverse:
        return found
    caller = asker or (query.options.user if query.options else None)
    return (*found, *walks(text, graph.traverse, named=named, time=time, asker=caller))


def _shape(said: Sequence[str], time: QuestionTime, language: Language) -> QuestionShape | None:
    if time.alone and time.of != "told":
        return "recap"
    listed = asks_for_calendar(said, time) or asks_for_list(said)
    return "list" if language == "english" and listed else None


def _one_speaker(named: Collection[str], told: SaidBy | None) -> str | None:
    """The one speaker whose turns are likely to answer: who said it, else the only one who is named."""
    of = told.speakers if told is not None and told.speakers else tuple(named)
    return of[0] if len(of) == 1 else None


def _time(text: str, query: RecallQueryV1, profile: Profile, now: float, speakers: frozenset[str]) -> QuestionTime:
    try:
        clock = datetime.fromtimestamp(now, zone_of(query))
    except (OverflowError, ValueError, OSError):
        return NO_TIME  # a clock beyond the calendar: nothing is relative to it
    return times(
        text,
        clock,
        names=name_words(speakers),
        south=profile.time.hemisphere == "south",
        day_first=profile.time.day_first,
    )


def zone_of(query: RecallQueryV1) -> tzinfo:
    """The zone that the query names, else that of its own "now"."""
    options = query.options
    if options is None:
        return UTC
    if options.timezone is not None:
        return time_zone(options.timezone)
    return (options.as_of.tzinfo if options.as_of else None) or UTC


def zone_name(query: RecallQueryV1) -> str:
    """The zone of `zone_of` as `time_zone` reads it: an IANA name, an offset such as +02:00, or UTC."""
    return str(zone_of(query)).removeprefix("UTC") or "UTC"
