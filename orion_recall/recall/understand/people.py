"""The names in a question: the speakers that it names, the one who asks, other names, and whose words it asks for.

said_by("What did Ana say about the roof last week?", ...) -> Ana, "the roof", last week

Read are questions ("What did Ana say", "Has Ana written anything about", "Which book did Ana recommend"), clauses
("remind me what Ana said") and nouns ("Ana's advice on"). English only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import dropwhile, pairwise
from typing import Literal, NamedTuple

from orion_recall.memory.extraction.sentences import read_sentences
from orion_recall.text.names import names_assistant
from orion_recall.text.normal import STOP_WORDS, content_words, is_unspaced, without_possessive, words
from orion_recall.text.reported import BASE_FORMS, NOUNS, SAID, SAYING
from orion_recall.values import Interval, QuestionTime

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
        if not (bearers := names.get(word, ())):
            continue
        whole = [len(name) for _, name in bearers if asked[place : place + len(name)] == name]
        if not whole and is_unspaced(word):  # the first two characters of a name are no first name
            continue
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
    Only `known` ones, which the text mentions, are found in lower case."""
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


_SAID_CHARS = 400
_TOKEN = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*|[^\w\s]", re.UNICODE)
_ASKING = frozenset("what which how where who whom when why whatever what's".split())
_AUXILIARIES = frozenset("did does do has have had".split())
_ADVERBS = frozenset(
    """ever just already also actually even then recently last first again once originally exactly always really
    still only usually""".split()
)
_DETERMINERS = frozenset("the my our his her their your".split())
_ADDRESSEES = frozenset("me us you him her them myself everybody everyone people".split())
_ABOUT = frozenset("about regarding concerning on of for re over with".split())
_LINKS = frozenset("in at on during since from to and that , this of by".split())
_EMPTY = frozenset("anything something things thing everything else there it this that".split())
_OF_SAYING = frozenset("yesterday today ago last this recently".split())
_MOST_NAME_WORDS = 4
_NO_NAME = SAYING | _ADVERBS
_NO_NOUN = _EMPTY | NOUNS | _ASKING | STOP_WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidBy:
    """Whose words a question asks for: `name` as the question has it ("Ana", "I"), and the speakers as written.

    `names` are the folded names by which a text may report what that person said, `topic` the words of what it was
    about, `intervals` the times of which it must have been said. `is_strict`: nothing but the words of that person
    answers ("What did Ana say about the roof?"); else they are likelier to ("Which roof did Ana mention?").
    """

    name: str
    speakers: tuple[str, ...]
    names: tuple[str, ...]
    topic: str = ""
    intervals: tuple[Interval, ...] = ()
    is_strict: bool = False


class _Subject(NamedTuple):
    name: str
    speakers: tuple[str, ...]
    names: tuple[str, ...]
    end: int


def said_by(text: str, time: QuestionTime, *, speakers: frozenset[str], asker: str | None) -> SaidBy | None:
    """What the first 400 characters ask of somebody's words; None when they ask for something else. `asker` is the
    speaker that "I" means; a pronoun such as "she" is nobody here."""
    return _Reader(text[:_SAID_CHARS], time, speakers, asker).read()


class _Reader:
    def __init__(self, text: str, time: QuestionTime, speakers: frozenset[str], asker: str | None) -> None:
        self.tokens = _TOKEN.findall(text)
        self.folded = [token.casefold().replace("’", "'") for token in self.tokens]
        self.time, self.speakers, self.asker = time, speakers, asker

    def read(self) -> SaidBy | None:
        """The first reading from the left."""
        asked: int | None = None
        for place, word in enumerate(self.folded):
            if word in _AUXILIARIES and (asked is not None or place == 0):
                found = self._verb_after(place + 1, BASE_FORMS if word in ("did", "does", "do") else SAID)
                # "Who does Ana report to?" is nobody's words.
                if found is not None and (asked is None or self.folded[asked] not in ("who", "whom")):
                    return self._made(*found, [] if asked is None else self.folded[asked:place])
            else:
                is_what = word in ("what", "whatever")
                found = (self._verb_after(place + 1, SAID) if is_what else None) or self._noun(place)
                if found is not None:
                    return self._made(*found)
            if word in _ASKING:
                asked = place
        return None

    def _verb_after(self, place: int, forms: frozenset[str]) -> tuple[_Subject, int] | None:
        """The subject that begins here, and where its verb of saying ends."""
        if (subject := self._subject(place)) is None:
            return None
        at = subject.end
        while self._word(at) in _ADVERBS:
            at += 1
        return (subject, at + 1) if self._word(at) in forms else None

    def _word(self, at: int) -> str:
        return self.folded[at] if at < len(self.folded) else ""

    def _noun(self, place: int) -> tuple[_Subject, int] | None:
        """ "Ana's advice on": a name with its possessive ending, and what somebody says."""
        if self._word(place + 1) not in NOUNS or not self.folded[place].endswith("'s"):
            return None
        first = place
        while first and self.tokens[first - 1][0].isupper() and self.folded[first - 1] not in _ASKING:
            first -= 1
        subject = self._named([*self.tokens[first:place], self.tokens[place][:-2]], place + 1)
        return None if subject is None else (subject, place + 2)

    def _subject(self, place: int) -> _Subject | None:
        word, after, mine = self._word(place), self._word(place + 1), assistants(self.speakers)
        if word in ("i", "we"):
            return None if self.asker is None else _of_speakers(self.tokens[place], (self.asker,), place + 1)
        if word == "you":
            return _of_speakers("the assistant", mine, place + 1) if mine and self.asker not in mine else None
        if word in _DETERMINERS:  # "the assistant"; any other role names nobody who is known
            is_mine = mine and after in ("assistant", "bot", "chatbot", "ai")
            return _of_speakers(f"{word} {after}", mine, place + 2) if is_mine else None
        end = place
        while (
            end < len(self.tokens)
            and end - place < _MOST_NAME_WORDS
            and self.tokens[end][0].isalnum()
            and self.folded[end] not in _NO_NAME
            and (self.tokens[end][0].isupper() or self._is_speaker(place, end + 1))
        ):
            end += 1
        return self._named(self.tokens[place:end], end) if end > place else None

    def _is_speaker(self, place: int, end: int) -> bool:
        said = tuple(words(" ".join(self.tokens[place:end])))
        bearers = by_first_name(self.speakers).get(said[0], ()) if said else ()
        return any(name[: len(said)] == said for _, name in bearers)

    def _named(self, tokens: Sequence[str], end: int) -> _Subject | None:
        name = " ".join(tokens)
        said = words(name)
        if not said or said[0] in STOP_WORDS | _ASKING:
            return None
        found = tuple(named_speakers(name, said, self.speakers))
        if not found:
            return None
        called = [without_title(words(speaker)) for speaker in found]
        names = {" ".join(one) for one in (without_title(said), *called)}
        first = called[0][0]  # of several with one first name, a text that tells it alone may mean another
        if len(found) == len(by_first_name(self.speakers)[first]) == 1:
            names.add(first)
        return _Subject(name, found, tuple(sorted(names)), end)

    def _made(self, subject: _Subject, end: int, before: Sequence[str] = ()) -> SaidBy:
        """`before` are the words from the question word up to the auxiliary."""
        rest, is_about, intervals = self._rest(end)
        noun = [word for word in before if word not in _NO_NOUN]
        topic = " ".join([*noun, *rest])
        if not [word for word in content_words(topic) if word not in _EMPTY and word not in _ADVERBS]:
            topic = ""  # "What did Ana say last?"
        is_strict = (not before or before[0] in ("what", "what's")) and not noun and (not topic or is_about)
        name, speakers, names, _ = subject
        said = intervals if is_strict else ()
        return SaidBy(name=name, speakers=speakers, names=names, topic=topic, intervals=said, is_strict=is_strict)

    def _rest(self, end: int) -> tuple[list[str], bool, tuple[Interval, ...]]:
        """The words of the topic, whether "about" or its like leads to them, and the times of saying: a Monday
        after "about the ferry" may be the ferry's; "yesterday", and whatever stands before "about", is of
        saying."""
        spans = self._spans()
        prepositions = [at for at in range(end, len(self.folded)) if self.folded[at] in _ABOUT]
        of_times = {at for first, last in spans.values() for at in range(first - 1, last)}
        about = next((at for at in prepositions if at not in of_times), None)
        skipped: set[int] = set()
        intervals: list[Interval] = []
        for interval, (first, last) in spans.items():
            of_topic = about is not None and first > about + 1 and not _is_of_saying(interval)
            if of_topic and any(self._is_topic(at) for at in range(about + 1 if about else end, first)):
                continue
            intervals.append(interval)
            skipped |= set(range(first, last))
            while first - 1 >= end and self.folded[first - 1] in _LINKS:
                first -= 1
                skipped.add(first)
        at = end
        while at < len(self.folded) and at not in skipped and at != about and self._is_addressee(at):
            at += 1
        kept = [one for one in range(at, len(self.tokens)) if one not in skipped and self.tokens[one][0].isalnum()]
        if not kept:  # nothing but whom it was said to: a name, if not "me", tells more than nothing
            kept = [one for one in range(end, at) if self.folded[one] not in _ADDRESSEES | {"to"}]
            return [self.tokens[one] for one in kept], bool(kept), tuple(intervals)
        kept = list(dropwhile(lambda one: self.folded[one] in _EMPTY, kept))
        is_about = kept[:1] == [about]
        return [self.tokens[one] for one in kept[is_about:]], is_about, tuple(intervals)

    def _is_addressee(self, at: int) -> bool:
        word = self.folded[at]
        if word == "to":
            return at + 1 < len(self.folded) and self._is_addressee(at + 1)
        return word in _ADDRESSEES or (self.tokens[at][0].isupper() and word not in STOP_WORDS)

    def _is_topic(self, at: int) -> bool:
        return self.tokens[at][0].isalnum() and self.folded[at] not in STOP_WORDS | _EMPTY | _LINKS

    def _spans(self) -> dict[Interval, tuple[int, int]]:
        found: dict[Interval, tuple[int, int]] = {}
        for interval in self.time.intervals:
            said = [token.casefold().replace("’", "'") for token in _TOKEN.findall(interval.words)]
            places = (at for at in range(len(self.folded)) if said and self.folded[at : at + len(said)] == said)
            if (place := next(places, None)) is not None:
                found[interval] = (place, place + len(said))
        return found


def _is_of_saying(interval: Interval) -> bool:
    """Whether the words tell when something was said wherever they stand: yesterday, last week, since, ago."""
    return interval.kind == "open" or not _OF_SAYING.isdisjoint(words(interval.words))


def _of_speakers(name: str, speakers: tuple[str, ...], end: int) -> _Subject:
    return _Subject(name, speakers, tuple(sorted({" ".join(words(speaker)) for speaker in speakers})), end)
