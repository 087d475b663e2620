"""Statements in a sentence: subject, relation, object, by closed lists of phrases.

Nothing is guessed: a subject is a name, the speaker ("I", "we") or who a pronoun means (`Persons`), the words
between it and the relation are auxiliaries, and negations, questions and conditions state nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orion_recall.memory.extraction.persons import Persons
from orion_recall.memory.extraction.units import Sentence, Unit
from orion_recall.memory.extraction.word_lists import (
    AFTER_LIST,
    BARE_FORMS,
    BE,
    DETERMINERS,
    FILLERS,
    FIRST_PERSON,
    FIRST_PERSON_OBJECT,
    FIRST_PERSON_OWNER,
    HYPOTHETICAL,
    KIN,
    KIN_ADJECTIVES,
    NAMED,
    RELATIONS,
    ROLE_PREPOSITIONS,
    THIRD_PERSON,
    THIRD_PERSON_OBJECT,
    THIRD_PERSON_OWNER,
    TRADE_NOUNS,
)
from orion_recall.text.normal import STOP_WORDS
from orion_recall.values import Statement

_MAX_OBJECTS = 4
_MAX_ROLE_WORDS = 3
_MAX_WORDS_BEFORE_NAMED = 3


def find_statements(sentence: Sentence, speaker: str | None, persons: Persons) -> Iterator[Statement]:
    """The statements of one sentence in reading order; may repeat itself. `persons` learns who is named in it.

    Whom nobody can tell is UNKNOWN in them.
    """
    persons.begin()
    if sentence.question or any(unit.folded in HYPOTHETICAL for unit in sentence.units):
        persons.read(sentence.units, 0, len(sentence.units))
        return
    reader = _Reader(sentence.units, speaker, persons)
    while reader.at < len(reader.units):
        yield from reader.step()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relative:
    """`my older sister`: whose, which relative, and where the words end."""

    owner: str
    kin: str
    end: int


class _Reader:
    """Walks one sentence with the subject that is in force; every step looks a bounded way ahead."""

    def __init__(self, units: tuple[Unit, ...], speaker: str | None, persons: Persons) -> None:
        self.units = units
        self.speaker = speaker
        self.persons = persons
        self.at = 0
        self.subject: str | None = None
        self.stated = False

    def step(self) -> Iterator[Statement]:
        """What is stated from here; moves on."""
        is_mark = self.units[self.at].kind == "mark"
        found = None if is_mark else self._kin() or self._relation() or self._role()
        began = self.at
        if found:
            statements, self.at = found
            self.stated = True
            yield from statements
        else:
            self._follow(self.units[self.at])
            self.at += 1
        self.persons.read(self.units, began, self.at)

    def _follow(self, unit: Unit) -> None:
        """Keeps, takes or drops the subject."""
        if unit.folded in FIRST_PERSON:
            self.subject, self.stated = self.speaker, False
        elif unit.kind == "name" and not unit.quoted:
            self.subject, self.stated = unit.text, False
        elif unit.folded in THIRD_PERSON:
            self.subject, self.stated = self.persons.meant(unit.folded), False
        elif unit.folded == "who":
            self.subject = self._name_before()
        elif unit.folded in FILLERS:
            return
        elif not (self.stated and unit.folded in ("and", ",")):
            self.subject = None

    def _name_before(self) -> str | None:
        for unit in reversed(self.units[max(0, self.at - 2) : self.at]):
            if unit.kind == "name":
                return unit.text
            if unit.folded != ",":
                return None
        return None

    def _unit(self, at: int) -> Unit | None:
        return self.units[at] if 0 <= at < len(self.units) else None

    def _is(self, at: int, words: frozenset[str]) -> bool:
        unit = self._unit(at)
        return unit is not None and unit.folded in words

    def _name(self, at: int) -> str | None:
        unit = self._unit(at)
        return unit.text if unit is not None and unit.kind == "name" else None

    # -- Ana's sister Mira; my sister is Mira; Mira is my sister

    def _kin(self) -> tuple[list[Statement], int] | None:
        relative = self._relative(self.at)
        if relative is None:
            return None
        relation = f"{relative.kin} of"
        named, end = self._named_after(relative.end)
        if named is None and not self._name(relative.end):
            named, end = self._named_before(), relative.end
        if named is None or named == relative.owner:
            return None
        self.subject = named
        self.persons.is_kin(named, relative.kin)
        return [Statement(subject=named, relation=relation, object=relative.owner)], end

    def _relative(self, at: int) -> _Relative | None:
        first = self.units[at]
        if first.folded in FIRST_PERSON_OWNER:
            owner = self.speaker
        elif first.folded in THIRD_PERSON_OWNER:
            owner = self.persons.meant(first.folded)
        else:
            owner = first.text if first.kind == "name" and first.possessive else None
        if owner is None:
            return None
        at += 1
        while self._is(at, KIN_ADJECTIVES) and at - self.at <= 2:
            at += 1
        unit = self._unit(at)
        if unit is None:
            return None
        kin = unit.folded
        if kin.endswith("'s") and self._is(at + 1, frozenset(["name"])):
            kin, at = kin.removesuffix("'s"), at + 1
        return _Relative(owner=owner, kin=kin, end=at + 1) if kin in KIN else None

    def _named_after(self, at: int) -> tuple[str | None, int]:
        """The name after `my sister`, with `,`, `is` or `named` between or nothing."""
        comma = self._is(at, frozenset([","]))
        for _ in range(2):
            if self._is(at, NAMED | BE | {","}):
                at += 1
        unit = self._unit(at)
        if unit is None or unit.kind != "name" or unit.possessive:
            return None, at
        if comma and not (self._unit(at + 1) is None or self._is(at + 1, frozenset([",", "and"]))):
            return None, at
        return unit.text, at + 1

    def _named_before(self) -> str | None:
        if self._is(self.at - 1, frozenset([","])):
            return self._name(self.at - 2)
        return self.subject if self._is(self.at - 1, BE) else None

    # -- Ana works at Fjord Labs

    def _relation(self) -> tuple[list[Statement], int] | None:
        if self.subject is None or not self._is_verb_here():
            return None
        for words, relation in RELATIONS.get(self.units[self.at].folded, ()):
            end = self.at + len(words)
            if tuple(unit.folded for unit in self.units[self.at : end]) != words:
                continue
            objects, end = self._objects(end)
            if objects:
                return self._stated(relation, objects), end
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
        return before.folded in FIRST_PERSON or before.folded in FILLERS or before.folded == "and"

    def _stated(self, relation: str, objects: list[str]) -> list[Statement]:
        subject = self.subject
        if subject is None:
            return []
        return [Statement(subject=subject, relation=relation, object=name) for name in objects if name != subject]

    def _objects(self, at: int) -> tuple[list[str], int]:
        """The names that begin here: one, or a list joined by commas and `and`."""
        if not (self._is(at, THIRD_PERSON_OBJECT) and self._ends(at + 1)):
            at = self._skip_to_name(at)
        unit = self._unit(at)
        if unit is not None and unit.folded in FIRST_PERSON_OBJECT | THIRD_PERSON_OBJECT and self._ends(at + 1):
            is_first = unit.folded in FIRST_PERSON_OBJECT
            meant = self.speaker if is_first else self.persons.meant(unit.folded, but=self.subject)
            return ([meant], at + 1) if meant is not None else ([], at)
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
        unit = self._unit(at)
        return unit is None or unit.kind == "mark" or unit.folded in AFTER_LIST

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

    def _role(self) -> tuple[list[Statement], int] | None:
        opening = self.units[self.at]
        if opening.folded == "i'm":
            self.subject, self.stated = self.speaker, False
        elif opening.folded in ("he's", "she's"):
            self.subject, self.stated = self.persons.meant(opening.folded), False
        elif self.subject is None:
            return None
        if opening.folded not in BE or not self._is(self.at + 1, DETERMINERS):
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
