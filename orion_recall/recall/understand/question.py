"""The question of a query: the text to embed, the keywords, the clock, the class, the names and the time."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from orion_recall.contracts import RecallQueryV1
from orion_recall.profile import Profile
from orion_recall.recall.understand.chains import asks_who, chains, walks
from orion_recall.recall.understand.classes import FACTUAL, Classified, classify
from orion_recall.recall.understand.people import (
    NamedEntity,
    SaidBy,
    asking_speaker,
    entities,
    is_first_person,
    name_words,
    named_speakers,
    said_by,
    without_names,
)
from orion_recall.recall.understand.shape import (
    asks_for_list,
    asks_what_is_ahead,
    is_alone,
    keyword_text_of,
    without_times,
)
from orion_recall.text.names import SYNONYMS
from orion_recall.text.normal import (
    STOP_WORDS,
    content_words,
    in_usual_forms,
    text_hash,
    without_possessive,
    words,
)
from orion_recall.text.zones import time_zone
from orion_recall.values import NO_TIME, Question, QuestionShape, QuestionTime
from orion_recall.when.times import times

# What lies beyond is neither embedded (256 tokens) nor worth the time; the decision records the whole length.
_SEARCHED_CHARS = 4000
# A capital letter alone after another word, and not the pronoun.
_LETTER = re.compile(r"(?<=\w )([A-HJ-Z])(?![\w'’.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Understanding:
    """The question, and what it names and asks for.

    `named_speaker` is the one speaker it names, as written, `people` all of them, `asker` the one that "I" means.
    `said_by`: it asks for somebody's words. `shape`: it asks for a recap of a period, or for a list of all of a
    kind; None for one answer. `identifiers`: its numbers and single letters that are of no time.
    """

    question: Question
    named_speaker: str | None
    classified: Classified = FACTUAL
    people: tuple[str, ...] = ()
    entities: tuple[NamedEntity, ...] = ()
    shape: QuestionShape | None = None
    asker: str | None = None
    said_by: SaidBy | None = None
    is_first_person: bool = False
    identifiers: frozenset[str] = frozenset()
    zone: str = "UTC"

    @property
    def is_recap(self) -> bool:
        """Whether the question is answered by everything of its period."""
        return self.shape == "recap"

    @property
    def is_said_by(self) -> bool:
        """Whether nothing but what one person said answers the question."""
        return self.said_by is not None and self.said_by.is_strict


def understand(query: RecallQueryV1, profile: Profile, *, now: float, speakers: frozenset[str]) -> Understanding:
    """The query as the sources need it.

    A speaker's name drags a dense search to the turns that address that person, so names are taken out of the text
    that is embedded, unless nothing would be left. Words of an understood time are not searched for at all.
    """
    text = query.fragment[:_SEARCHED_CHARS]
    intent = (query.intent or "")[:_SEARCHED_CHARS]
    said = words(text)
    named = named_speakers(text, said, speakers)
    named_words = {word for name in named.values() for word in name}
    time = _time(text, query, profile, now, speakers)
    asker = asking_speaker(query.options.user if query.options else None, speakers, profile.callers)
    told = said_by(text, time, speakers=speakers, asker=asker)
    searched = without_times(text, time)
    if is_alone(searched, time, names=named_words, intent=intent):
        time = replace(time, alone=True)
    else:
        searched = without_times(text, time, with_dates=True)
    searched = searched if searched is text or words(searched) else text
    keywords = keyword_text_of(text, searched, time)
    if told is not None and told.is_strict and told.topic:  # "What did Ana say" is no part of what she said
        searched, keywords = told.topic, f"{told.topic} {told.name}"
    called = entities(text, tuple(named))
    terms = frozenset(content_words(f"{keywords} {intent}"))
    keyword_text = f"{keywords} {intent}".strip()
    if profile.enable_query_expansion:
        further = expansions(keywords, speakers, terms)
        keyword_text = " ".join((keyword_text, *further))
        terms = terms.union(further)
    ways = chains(text, asker) if profile.graph.paths else ()
    if kinds := profile.graph.traverse:
        caller = asker or (query.options.user if query.options else None)
        ways = (*ways, *walks(text, kinds, named=called, time=time, asker=caller))
    numbers = frozenset(term for term in terms if not term.isalpha() and any(map(str.isdigit, term)))
    of = tuple(named) if told is None else told.speakers  # whose turns are likely to answer
    return Understanding(
        question=Question(
            text=text,
            dense_text=in_usual_forms(without_names(searched, named_words) if named else searched),
            keyword_text=keyword_text,
            terms=terms,
            now=now,
            text_hash=text_hash(text),
            session_id=query.session_id,
            node_id=query.node_id,
            time=time,
            chains=ways,
        ),
        named_speaker=of[0] if len(of) == 1 and not asks_who(text) else None,  # others tell who somebody is
        asker=asker,
        said_by=told,
        is_first_person=asker is not None and is_first_person(said),
        classified=classify(said, time, now=now),
        people=tuple(named),
        entities=called,
        identifiers=numbers.union(letter.casefold() for letter in _LETTER.findall(text)),
        shape=_shape(said, time),
        zone=zone_name(query),
    )


def _shape(said: Sequence[str], time: QuestionTime) -> QuestionShape | None:
    if time.alone and time.of != "told":
        return "recap"
    return "list" if asks_what_is_ahead(said, time) or asks_for_list(said) else None


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


# Verb forms, words for kin and full names that an answer may have and the question has not. The keyword index
# stems, so "running" finds "runs" already; what no stemmer does is "bought" and "buy".
_VERBS = """
be was were been|become became|begin began begun|bite bit bitten|blow blew blown|break broke broken|bring brought
build built|buy bought|catch caught|choose chose chosen|come came|cost|cut|dig dug|do did done|draw drew drawn
drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|find found
fly flew flown|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten|give gave given
go went gone|grow grew grown|hang hung|have had|hear heard|hide hid hidden|hold held|keep kept|know knew known
lead led|learn learnt|leave left|lend lent|lose lost|make made|mean meant|meet met|pay paid|ride rode ridden
ring rang rung|rise rose risen|run ran|say said|see saw seen|sell sold|send sent|shake shook shaken|shine shone
shoot shot|sing sang sung|sink sank sunk|sit sat|sleep slept|speak spoke spoken|spend spent|stand stood
steal stole stolen|stick stuck|strike struck|swear swore sworn|swim swam swum|take took taken|teach taught
tear tore torn|tell told|think thought|throw threw thrown|understand understood|wake woke woken|wear wore worn
win won|write wrote written|child children|person people|man men|woman women|mouse mice|foot feet|tooth teeth
"""
_GROUPS = [group.split() for line in str(_VERBS).splitlines() for group in line.split("|")]
_FORMS = {form: group for group in _GROUPS for form in group}
# Too common to say anything in any form.
_EMPTY = frozenset("be was were been do did done have had get got gotten".split())


@lru_cache(maxsize=64)
def _parts(names: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """The words of every name, in alphabetical order; split once for as long as nobody new speaks."""
    return tuple(sorted(tuple(parts) for name in names if (parts := words(name))))


def expansions(text: str, names: Iterable[str], terms: Collection[str]) -> list[str]:
    """Further words to search for, in a fixed order, none of them in `terms`.

    A beginning of three letters and more of one of the full `names` brings the whole name: "Mel" finds "Melanie
    Jones", "the" does not find "Theo".
    """
    asked = words(text)
    bare = [*map(without_possessive, asked)]
    found = [form for word in asked if word not in _EMPTY for form in _FORMS.get(word, ())]
    found += [form for word in bare for form in SYNONYMS.get(word, ())]
    beginnings = [one for one, word in zip(bare, asked, strict=True) if len(one) >= 3 and word not in STOP_WORDS]
    known = _parts(frozenset(names)) if beginnings else ()
    for word in beginnings:
        for parts in known[bisect_left(known, (word,)) :]:
            if not parts[0].startswith(word):
                break
            if word not in parts[1:]:
                found.extend(parts)
    return [word for word in dict.fromkeys(found) if word not in terms]
