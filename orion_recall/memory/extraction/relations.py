"""Statements in a sentence: subject, relation, object, by closed lists of phrases.

Nothing is guessed: a subject is a name, the speaker ("I", "we") or who a pronoun means (`Persons`), the words
between it and the relation are auxiliaries. Negations, questions, conditions and hearsay state nothing but what
they take for granted: "did you meet my sister Lea?".
"""

from __future__ import annotations

from collections.abc import Iterator

from orion_recall.memory.extraction.assertion import end_of_assertion
from orion_recall.memory.extraction.nicknames import NicknameReader
from orion_recall.memory.extraction.persons import Persons
from orion_recall.memory.extraction.relation_phrases import (
    BARE_FORMS,
    DOES_MY,
    IT_IS,
    OF_IT,
    OF_THINGS,
    RELATIONS,
    THERE,
    THING_IS,
    objects_meant,
)
from orion_recall.memory.extraction.role_notes import RoleNotes
from orion_recall.memory.extraction.role_sentences import RoleSentences
from orion_recall.memory.extraction.units import Sentence, Unit
from orion_recall.memory.extraction.word_lists import (
    AFTER_LIST,
    BE,
    DETERMINERS,
    FILLERS,
    FIRST_PERSON,
    FIRST_PERSON_OBJECT,
    NAMED,
    OWNERS,
    ROLE_PREPOSITIONS,
    TEAMS,
    THIRD_PERSON,
    THIRD_PERSON_OBJECT,
    TRADE_NOUNS,
)
from orion_recall.text.normal import STOP_WORDS
from orion_recall.values import Statement

_BEFORE_PLACES = frozenset("in at near from of to around outside".split())
_MAX_OBJECTS, _MAX_ROLE_WORDS, _MAX_WORDS_BEFORE_NAMED = 4, 3, 3

_Found = tuple[list[Statement], int]


def find_statements(sentence: Sentence, speaker: str | None, persons: Persons) -> Iterator[Statement]:
    """The statements of one sentence in reading order; may repeat itself. `persons` learns who is named in it.

    Whom nobody can tell is UNKNOWN in them.
    """
    persons.begin()
    reader = _Reader(sentence.units, speaker, persons)
    reader.asserts_until = end_of_assertion(sentence)
    reader.asks = sentence.question
    while reader.at < len(reader.units):
        yield from reader.step()


class _Reader:
    """Walks one sentence with the subject that is in force; every step looks a bounded way ahead."""

    def __init__(self, units: tuple[Unit, ...], speaker: str | None, persons: Persons) -> None:
        self.units = units
        self.speaker = speaker
        self.persons = persons
        self.at = 0
        self.asserts_until = len(units)
        self.asks = False
        self.subject: str | None = None
        self.stated = False
        # "It", or a thing without a name, is the subject.
        self._of_it = False
        self._outside: str | None = None
        self._roles = RoleSentences(units, speaker, persons)
        self._notes = RoleNotes(units, speaker, self._roles.reader)
        self._nicknames = NicknameReader(units, speaker, persons)

    def step(self) -> Iterator[Statement]:
        """What is stated from here; moves on."""
        found = self._found()
        began = self.at
        if found:
            statements, self.at = found
            self.stated = True
            yield from statements
        else:
            self._follow(self.units[self.at])
            self.at += 1
        self.persons.read(self.units, began, self.at)

    def _found(self) -> _Found | None:
        asserts = self.at < self.asserts_until
        if asserts and (nickname := self._nicknames.find(self.at, self.subject)):
            return nickname
        if self.units[self.at].kind == "mark":
            return None
        subject = self.subject if not self._of_it else None
        role = self._roles.find(self.at, subject, asserts=asserts, asks=self.asks)
        if role or (role := self._notes.find(self.at) if asserts else None):
            self.subject = role.subject
            return role.statements, role.end
        return (self._relation() or self._role()) if asserts else None

    def _follow(self, unit: Unit) -> None:
        """Keeps, takes or drops the subject."""
        before = self.subject
        if unit.kind == "mark" and unit.text == "(":
            self._outside = before
        self._take(unit)
        is_thing = self.subject != before and self.subject is not None and unit.folded in ("the", "our")
        self._of_it = unit.folded in ("it", "it's") or is_thing or (self._of_it and self.subject == before)

    def _take(self, unit: Unit) -> None:
        if unit.folded in FIRST_PERSON:
            self.subject, self.stated = self.speaker, False
        elif unit.kind == "name" and self._is(self.at - 1, _BEFORE_PLACES):
            self.subject = None  # "a kiln in Aveiro invited me": it was not Aveiro
        elif (unit.kind == "name" and not unit.quoted) or self._roles.is_month_subject(self.at):
            self.subject, self.stated = unit.text, False
        elif unit.folded in THIRD_PERSON:
            self.subject, self.stated = self.persons.meant(unit.folded), False
        elif unit.folded in ("it", "it's"):
            self.subject, self.stated = self.persons.it_as_subject(), False
        elif unit.folded in ("the", "our") and self._begins_clause() and (thing := self._thing(self.at)):
            self.subject, self.stated = thing[0], False
        elif unit.folded == "who":
            self.subject = self._name_before()
        elif unit.folded in FILLERS or self._is_inside_thing():
            return
        elif unit.text == ")" and unit.kind == "mark":
            self.subject, self._outside = self._outside, None
        elif not (self.stated and unit.folded in ("and", "but", ",", "–", "—")):
            self.subject = None

    def _begins_clause(self) -> bool:
        if (before := self._unit(self.at - 1)) is None or before.kind == "mark":
            return True
        return before.folded in ("and", "but", "because", "so", "that")

    @property
    def _is_unnamed(self) -> bool:
        """Whether the subject is a thing without a name, "billing service"."""
        return self.subject is not None and " " in self.subject and self.subject.islower()

    def _is_inside_thing(self) -> bool:
        """Whether that thing goes on here: `service` of "the billing service"."""
        return self.subject is not None and self._is_unnamed and self.units[self.at].folded in self.subject.split()

    def _name_before(self) -> str | None:
        for unit in reversed(self.units[max(0, self.at - 2) : self.at]):
            if unit.kind == "name":
                return unit.text
            if unit.folded != ",":
                return self.subject if self.stated else None
        return None

    def _unit(self, at: int) -> Unit | None:
        return self.units[at] if 0 <= at < len(self.units) else None

    def _is(self, at: int, words: frozenset[str]) -> bool:
        return (unit := self._unit(at)) is not None and unit.folded in words

    def _name(self, at: int) -> str | None:
        return unit.text if (unit := self._unit(at)) is not None and unit.kind == "name" else None

    # -- Ana works at Fjord Labs

    def _relation(self) -> _Found | None:
        if self.subject is None or not self._is_verb_here():
            return None
        here = self.units[self.at].folded
        if here in THERE and self._is(self.at + 1, frozenset(["there"])):
            place = self.persons.it(but=self.subject)
            return (self._stated(THERE[here], [place]), self.at + 2) if place is not None else None
        if found := self._work():
            return found
        for words, relation in RELATIONS.get(here, ()):
            end = self.at + len(words)
            if tuple(unit.folded for unit in self.units[self.at : end]) != words:
                continue
            start = end
            if self._of_it and relation not in (THING_IS if self._is_unnamed else IT_IS):
                continue
            if self._is(start, frozenset(["it"])) and relation not in OF_IT:
                continue
            objects, end = self._objects(start)
            if not objects and relation in OF_THINGS and (thing := self._thing(start)):
                objects, end = [thing[0]], thing[1]
            objects = objects_meant(here, relation, objects, self.units, start, end)
            if objects and (relation != "left" or self._ends(end)):
                return self._stated(relation, objects), end
        return None

    def _work(self) -> _Found | None:
        """ "Works as a translator for Fjord Labs", "does my accounts", "is on the Fjord team"."""
        here, following = self.units[self.at].folded, self._unit(self.at + 1)
        if following is None:
            return None
        if here in ("work", "works", "working") and following.folded == "as":
            for at in range(self.at + 2, min(self.at + 3 + _MAX_ROLE_WORDS, len(self.units))):
                if self.units[at].folded in ("at", "for", "with"):
                    objects, end = self._objects(at + 1)
                    return (self._stated("works at", objects), end) if objects else None
        whose = self.speaker if following.folded in ("my", "our") else None
        noun = self._unit(self.at + 2)
        if whose is not None and noun is not None and (role := DOES_MY.get((here, noun.folded))):
            return self._stated(f"{role} of", [whose]), self.at + 3
        if here == "on" and self._is(self.at - 1, BE) and following.folded == "the":
            name = self._name(self.at + 2)
            if name is not None and self._is(self.at + 3, TEAMS):
                return self._stated("part of", [name]), self.at + 4
        return None

    def _is_verb_here(self) -> bool:
        folded = self.units[self.at].folded
        before = self._unit(self.at - 1)
        if folded == "work" and before is not None and before.possessive:
            return False
        if folded not in BARE_FORMS or before is None:
            return True
        if folded == "from":
            return before.folded in BE or before.possessive
        if len(self._roles.group_before(self.at)) > 1:
            return True
        return before.folded in FIRST_PERSON or before.folded in FILLERS or before.folded == "and"

    def _stated(self, relation: str, objects: list[str]) -> list[Statement]:
        if self.subject is None:
            return []
        group = self._roles.group_before(self.at) if not self.units[self.at].folded.endswith("s") else []
        subjects = [*(name for name in group if name != self.subject), self.subject]
        return [
            Statement(subject=subject, relation=relation, object=name)
            for subject in subjects
            for name in objects
            if name != subject
        ]

    def _objects(self, at: int) -> tuple[list[str], int]:
        """The names that begin here: one, or a list joined by commas and `and`."""
        if self._is(at, frozenset(["it"])) and self._ends(at + 1):
            thing = self.persons.it(but=self.subject)
            return ([thing], at + 1) if thing is not None else ([], at)
        if not (self._is(at, THIRD_PERSON_OBJECT) and self._ends(at + 1)):
            at = self._skip_to_name(at)
        unit = self._unit(at)
        if unit is not None and unit.folded in FIRST_PERSON_OBJECT | THIRD_PERSON_OBJECT and self._ends(at + 1):
            is_first = unit.folded in FIRST_PERSON_OBJECT
            meant = self.speaker if is_first else self.persons.meant(unit.folded, but=self.subject)
            return ([meant], at + 1) if meant is not None else ([], at)
        if unit is not None and unit.kind == "word" and unit.folded.isdigit():
            at, unit = at + 1, self._unit(at + 1)
        if unit is None or unit.kind != "name" or unit.possessive:
            return [], at
        at = self._past_attribute(at)
        name = self._name(at)
        if name is None:
            return [], at
        objects = [name]
        at += 1
        while len(objects) < _MAX_OBJECTS:
            after = at
            while self._is(after, frozenset([",", "and"])) and after - at < 2:
                after += 1
            name = self._name(after)
            if after == at or name is None or self.units[after].possessive or not self._ends(after + 1):
                break
            objects.append(name)
            at = after + 1
        return objects, at

    def _ends(self, at: int) -> bool:
        """Whether what stands before is complete: nothing follows that could go on with it."""
        return (unit := self._unit(at)) is None or unit.kind == "mark" or unit.folded in AFTER_LIST

    def _thing(self, at: int) -> tuple[str, int] | None:
        """ "the billing service": a thing without a name of its own, in two or three words."""
        if not self._is(at, frozenset(["the", "our"])):
            return None
        words: list[str] = []
        for unit in self.units[at + 1 : at + 5]:
            if (
                unit.kind != "word"
                or unit.text != unit.folded
                or unit.folded in STOP_WORDS
                or not unit.folded.replace("-", "").isalpha()
            ):
                break
            if unit.folded in RELATIONS or unit.folded in FILLERS:
                break
            words.append(unit.folded)
        end = at + 1 + len(words)
        after = self._unit(end)
        is_whole = self._ends(end) or self._is(end, BE) or (after is not None and after.folded in RELATIONS)
        return (" ".join(words), end) if 2 <= len(words) <= 3 and is_whole else None

    def _past_attribute(self, at: int) -> int:
        """From `German` to `Hans Fallada` in "German author Hans Fallada"; else stays."""
        for ahead in range(at + 1, at + 2 + _MAX_ROLE_WORDS):
            unit = self._unit(ahead)
            if unit is None or unit.kind != "word" or unit.folded in STOP_WORDS:
                return at
            if unit.folded in TRADE_NOUNS:
                return ahead + 1
        return at

    def _skip_to_name(self, at: int) -> int:
        """Past determiners, or past `a small dog named`."""
        start = at
        while self._is(at, DETERMINERS) and at - start < 2:
            at += 1
        for ahead in range(at, at + _MAX_WORDS_BEFORE_NAMED + 1):
            unit = self._unit(ahead)
            if unit is None or unit.kind != "word":
                break
            if unit.folded in NAMED:
                return ahead + 1
        return at

    # -- Oslo is the capital of Norway

    def _role(self) -> _Found | None:
        opening = self.units[self.at]
        if opening.folded in ("i'm", "he's", "she's"):
            self._take(opening)
        elif self.subject is None:
            return None
        if opening.folded not in BE or not self._is(self.at + 1, DETERMINERS - OWNERS) or self._of_it:
            return None
        role: list[str] = []
        for at in range(self.at + 2, self.at + 3 + _MAX_ROLE_WORDS):
            unit = self._unit(at)
            if unit is None or unit.kind != "word":
                return None
            if role and unit.folded in ROLE_PREPOSITIONS:
                objects, end = self._objects(at + 1)
                relation = f"{' '.join(role)} {unit.folded}"
                return (self._stated(relation, objects), end) if objects else None
            if unit.folded in STOP_WORDS:
                return None
            if not unit.folded.isdigit():
                role.append(unit.folded)
        return None
