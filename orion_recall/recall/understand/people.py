"""The names in a question: the speakers that it names, the one who asks, and other names, found as in memories."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from orion_recall.memory.extraction.sentences import read_sentences
from orion_recall.text.names import names_assistant
from orion_recall.text.normal import STOP_WORDS, content_words, without_possessive, words

# "We" and "our" are more than the one who asks: what others say of themselves may be of them, too.
FIRST_PERSON = frozenset("i i'm i'd i'll i've me my mine myself".split())
# Without the name, questions for somebody's work are near to any talk of work.
_NOTHING_TOLD = frozenset(
    "living job jobs profession occupation work works working worked became become becomes happened happen news "
    "latest".split()
)
_PLACE = frozenset("in near around".split())
_IN_PERSONS = frozenset("interested believe believes trust trusts confide confides see saw faith interest".split())
_EDGES = '.,;:!?"“”()'
# Said before a name, with what each is short for: nobody is called by one alone.
_SHORT_TITLES = {"dr": "doctor", "prof": "professor", "mister": "mr"}
TITLES: Mapping[str, str] = _SHORT_TITLES | {
    word: word for word in "mr mrs ms miss sir doctor professor herr frau madame monsieur señor señora".split()
}


def asking_speaker(user: str | None, speakers: frozenset[str], callers: Sequence[str]) -> str | None:
    """The speaker that is meant by "I", as written; None when nobody knows.

    `callers` has speakers as `user=speaker`. Else it is the speaker called as the user is, else the one speaker
    with the user's first name, else the only speaker who is no assistant.
    """
    if user is not None:
        given = dict(part.split("=", 1) for part in callers)
        if (found := _called(given.get(user, user), speakers)) is not None or user in given:
            return found
    people = speakers.difference(assistants(speakers))
    return next(iter(people)) if len(people) == 1 and len(speakers) > 1 else None


@lru_cache(maxsize=64)
def assistants(speakers: frozenset[str]) -> tuple[str, ...]:
    """The assistants among the speakers, in the order of their names."""
    return tuple(sorted(filter(names_assistant, speakers)))


def is_first_person(said: Sequence[str]) -> bool:
    """Whether folded words of a question speak of the one who asks, and of nobody else with them."""
    return not FIRST_PERSON.isdisjoint([word.replace("’", "'") for word in said])


def _called(name: str, speakers: frozenset[str]) -> str | None:
    wanted = tuple(words(name.replace("_", " ")))
    if not wanted:
        return None
    by_words = _by_words(speakers)
    if (same := by_words.get(wanted)) is not None:
        return same
    first = [
        speaker for parts, speaker in by_words.items() if parts[:1] == wanted[:1] and 1 in (len(parts), len(wanted))
    ]
    return first[0] if len(first) == 1 else None


@lru_cache(maxsize=64)
def _by_words(speakers: frozenset[str]) -> Mapping[tuple[str, ...], str]:
    return {tuple(words(speaker)): speaker for speaker in sorted(speakers, reverse=True)}


@lru_cache(maxsize=64)
def name_words(speakers: frozenset[str]) -> frozenset[str]:
    """The folded words of all names."""
    return frozenset(word for speaker in speakers for word in words(speaker))


@lru_cache(maxsize=64)
def by_first_name(speakers: frozenset[str]) -> Mapping[str, Sequence[tuple[str, tuple[str, ...]]]]:
    """The speakers, as written and in words without a title, by the first word of their names."""
    names: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for speaker in sorted(speakers):
        if name := without_title(words(speaker)):
            names.setdefault(name[0], []).append((speaker, name))
    return names


@lru_cache(maxsize=64)
def _titled(speakers: frozenset[str]) -> Mapping[tuple[str, str], Sequence[str]]:
    """The speakers who have a title, as written, by the title and their last name."""
    names: dict[tuple[str, str], list[str]] = {}
    for speaker in sorted(speakers):
        name = words(speaker)
        if len(name) > 1 and (title := TITLES.get(name[0])) is not None:
            names.setdefault((title, name[-1]), []).append(speaker)
    return names


def without_title(name: Sequence[str]) -> tuple[str, ...]:
    """The folded words of a name without the title before them: "Dr. Hana Sato" is called Hana."""
    return tuple(name[1:] if len(name) > 1 and name[0] in TITLES else name)


def named_speakers(text: str, said: Sequence[str], speakers: frozenset[str]) -> Mapping[str, frozenset[str]]:
    """The speakers whom the words name, as written, each with the words that name them.

    `said` are the folded words of `text`. A full name wins over the first name in it, a first name that several
    bear names them all, "in Nelson" is a place, a stop word ("Will") names nobody alone, "Ana Brook" is not the
    speaker "Ana Miles", and "Dr. Sato" is the speaker "Dr. Hana Sato".
    """
    names, titled = by_first_name(speakers), _titled(speakers)
    asked = tuple(without_possessive(word) for word in said)
    named: dict[str, frozenset[str]] = {}
    for place, word in enumerate(asked):
        if place and (title := TITLES.get(asked[place - 1])) is not None and (found := titled.get((title, word))):
            for speaker in found:
                named[speaker] = named.get(speaker, frozenset()).union(asked[place - 1 : place + 1])
            continue
        bearers = names.get(word, ())
        whole = [len(name) for _, name in bearers if asked[place : place + len(name)] == name]
        length = max(whole, default=1)
        if length == 1 and (word in STOP_WORDS or _is_place(asked[max(0, place - 2) : place])):
            continue
        said_here = asked[place : place + length]
        for speaker, name in bearers:
            if name == said_here or (
                not whole and not _has_other_last_name(text, name, asked[place + 1 : place + 2])
            ):
                named[speaker] = named.get(speaker, frozenset()).union(said_here)
    return named


def _is_place(before: Sequence[str]) -> bool:
    """Whether a name after these words is a place's: "the course in Nelson", and not "I believe in Nelson"."""
    return bool(before) and before[-1] in _PLACE and before[0] not in _IN_PERSONS


def _has_other_last_name(text: str, name: Sequence[str], following: Sequence[str]) -> bool:
    """Whether the first name stands before a last name that is not the speaker's."""
    if len(name) < 2 or not following or following[0] in name[1:]:
        return False
    return any(
        second[0].isupper()  # of hardly any word, and the cheapest to see
        and first[-1].isalnum()
        and words(first) == [name[0]]
        and without_possessive(next(iter(words(second)), "")) == following[0]
        for first, second in pairwise(text.split())
    )


def without_names(text: str, names: Set[str]) -> str:
    """The text without the words of names; the whole text when hardly anything would be left to compare."""
    kept = [part for part in text.split() if without_possessive(part.casefold().strip(_EDGES)) not in names]
    rest = " ".join(kept)
    return rest if any(word not in _NOTHING_TOLD for word in content_words(rest)) else text


EntityKind = Literal["quoted", "capitalised", "known"]

MOST_ENTITIES = 16
_READ_CHARS = 1_000


class NamedEntity(NamedTuple):
    """A name as the question spells it, and the rule that found it."""

    name: str
    kind: EntityKind


def entities(text: str, known: Collection[str] = ()) -> tuple[NamedEntity, ...]:
    """The names in the first 1,000 characters, each once whatever its case, at most 16, as they come in each kind.

    `known` are names that the text mentions and that are known in its scope, spelt as there: only they are found
    in lower case.
    """
    folded = {name.casefold(): name for name in known}
    found: dict[EntityKind, dict[str, str]] = {"quoted": {}, "capitalised": {}, "known": {}}
    for sentence in read_sentences(text[:_READ_CHARS], known, headings=False):
        for unit in sentence.units:
            if unit.kind != "name":
                continue
            if unit.quoted or not unit.text.islower():
                found["quoted" if unit.quoted else "capitalised"].setdefault(unit.folded, unit.text)
            if unit.folded in folded:
                found["known"].setdefault(unit.folded, folded[unit.folded])
    chosen: dict[str, NamedEntity] = {}
    for kind, names in found.items():
        for name, written in names.items():
            chosen.setdefault(name, NamedEntity(written, kind))
    return tuple(chosen.values())[:MOST_ENTITIES]
