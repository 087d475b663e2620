"""Sentences that give somebody a role: "my sister Lea", "Lea is my sister", "Tom has a sister called Lea"."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orion_recall.graph.role_words import role_name
from orion_recall.memory.extraction.persons import Persons
from orion_recall.memory.extraction.role_lists import NATIONALITIES, OWN_THINGS, POSSESSIONS, TOGETHER
from orion_recall.memory.extraction.role_phrases import BEFORE_BARE, RolePhrase, RoleReader
from orion_recall.memory.extraction.units import Unit
from orion_recall.memory.extraction.word_lists import (
    AFTER_LIST,
    BE,
    FILLERS,
    FIRST_PERSON,
    FIRST_PERSON_OWNER,
    NAMED,
    OWNERS,
)
from orion_recall.text.normal import STOP_WORDS
from orion_recall.values import Statement

_OPENS = frozenset((",", "(", "–", "—"))
_CLOSES = frozenset((",", ")", "–", "—"))
_WAS = frozenset(("was", "were"))
_IS = (BE - FIRST_PERSON) | {"became", "becomes", "been"}
_HAS = frozenset("has have had got i've we've".split())
_COUNTS = frozenset("a an one two three four five another".split())
_NOW = frozenset("now also still just currently again".split())
_MINE = frozenset(("mine", "ours"))
_AFTER_OFFICE = AFTER_LIST | {"so", "now", "here", "since", "but", "until", "because"}
_BETWEEN_GROUP = FILLERS | {"all"}
_STARTS = _HAS | OWNERS | frozenset(TOGETHER) | {"a", "an", "the", "your"}
_THAT_IS = frozenset("that's he's she's".split())
_TITLES = frozenset("uncle aunt auntie aunty grandma grandpa granny granddad grandad".split())
_NAME = frozenset(("name",))
_MOST_MODIFIERS = 2
_MOST_GROUP = 4
_MOST_BETWEEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFound:
    """What is stated, where its words end, and whom the sentence is about then."""

    statements: list[Statement]
    end: int
    subject: str | None


class RoleSentences:
    """Finds who has which role, in the units of one sentence."""

    def __init__(self, units: tuple[Unit, ...], speaker: str | None, persons: Persons) -> None:
        self.units = units
        self.speaker = speaker
        self.persons = persons
        self.reader = RoleReader(units, speaker, persons)

    def find(self, at: int, subject: str | None, *, asserts: bool, asks: bool = False) -> RoleFound | None:
        """What is stated from a unit on. Without `asserts` only what is taken for granted: "my sister Lea"."""
        folded = self.units[at].folded
        if not self._may_begin(at):
            return None
        if asserts and subject is not None and folded in _HAS:
            return self._had(at, subject)
        if asserts and folded in TOGETHER:
            return self._together(at)
        phrase = self.reader.phrase(at) or self.reader.own_relative(at)
        if phrase is None:
            return self._titled(at) or (self._called(at) if asserts else None)
        if found := self._aside(at, phrase):
            return found
        if asserts and subject is not None and (found := self._predicate(at, phrase, subject)):
            return found
        if found := self._named(phrase, asserts=asserts, asks=asks):
            return found
        return self._known(phrase)

    def _may_begin(self, at: int) -> bool:
        """Whether anything can begin here: a quick no for most words."""
        unit = self.units[at]
        if unit.kind == "name" or unit.folded in _STARTS or unit.text[:1].isupper():
            return True
        return at > 0 and self.units[at - 1].folded in BEFORE_BARE

    # -- Lea, my sister, came; Lea (CEO of Fjord Labs)

    def _aside(self, at: int, phrase: RolePhrase) -> RoleFound | None:
        before = at - 1 - self._is(at - 1, _THAT_IS)
        name = self._name(before - 1) if self._is(before, _OPENS) else None
        if name is None or phrase.is_plural or phrase.asks_name:
            return None
        if phrase.owner is None and self._is(before - 2, _OPENS) and self._name(before - 3) is not None:
            # "Bergen, Norway, the son of": the place is not meant.
            return None
        statements, end = self._of_phrase(phrase, [name])
        if end < len(self.units) and self.units[end].folded not in _CLOSES:
            return None
        if self._is(end, frozenset([","])) and self._is(end + 1, frozenset(["and", "or"])):
            return None
        return self._result(phrase, statements, end, name) if statements else None

    # -- Lea is my sister; Lea is a friend of Tom's; Lea is the boss

    def _predicate(self, at: int, phrase: RolePhrase, subject: str) -> RoleFound | None:
        copula = self._copula_before(at)
        if copula is None or phrase.asks_name or (copula in _WAS and not phrase.is_for_life):
            return None
        if phrase.owner is not None and self._name(phrase.end) is not None:
            return None
        group = self.group_before(at - 1)
        if phrase.is_plural and len(group) < 2:
            return None
        statements, end = self._of_phrase(phrase, group if phrase.is_plural else [subject])
        return self._result(phrase, statements, end, subject) if statements else None

    def _of_phrase(self, phrase: RolePhrase, names: list[str]) -> tuple[list[Statement], int]:
        """The statements of a phrase with what follows it: "of mine", "of Tom's", "of Fjord Labs", nothing."""
        end = phrase.end
        if phrase.owner is not None or not phrase.is_current:
            return phrase.statements(names), end
        if phrase.place is not None:
            return phrase.statements(names), end
        if self._is(end, frozenset(["of"])):
            if self._is(end + 1, _MINE):
                owner, end = self.speaker, end + 2
            else:
                if not phrase.article and not phrase.is_office:
                    return [], end
                at = end + 1 + self._is(end + 1, frozenset(["the"]))
                owner, end = self._any_name(at), at + 1
            return (phrase.statements(names, owner), end) if owner is not None else ([], end)
        ends = end >= len(self.units) or self.units[end].kind == "mark" or self.units[end].folded in _AFTER_OFFICE
        is_one = phrase.article == "the" or (phrase.article == "" and " of " in phrase.role)
        if is_one and phrase.is_office and ends and self.speaker is not None:
            return phrase.statements(names, self.speaker), end
        return [], end

    # -- my sister Lea; my sister is Lea; my sister, Lea, came; my sister's name is Lea

    def _named(self, phrase: RolePhrase, *, asserts: bool, asks: bool) -> RoleFound | None:
        at, owner = phrase.end, phrase.owner
        if owner is None:
            if not asserts or phrase.article != "the" or not phrase.is_person:
                return None
            if self._is(at, frozenset(["of"])) and self._name(at + 1) is not None:
                owner, at = self._name(at + 1), at + 2
            elif phrase.is_office:
                owner = self.speaker
            if owner is None or not (self._is(at, BE) or (phrase.is_office and self._is(at, frozenset([","])))):
                return None
        names, end = self._names_after(phrase, at, asserts=asserts, asks=asks)
        if not names:
            return None
        statements = phrase.statements(names, owner)
        return self._result(phrase, statements, end, names[-1]) if statements else None

    def _names_after(self, phrase: RolePhrase, at: int, *, asserts: bool, asks: bool) -> tuple[list[str], int]:
        """The names after a role, and where they end; before a possessive of the name itself."""
        several = phrase.is_plural
        names, end = ([], at) if phrase.asks_name else self.reader.names(at, several=several)
        if names:
            return (names, end - 1) if self.units[end - 1].possessive else (names, end)
        if self._is(at, _OPENS | {":"}) and not phrase.asks_name:
            names, end = self.reader.names(at + 1, several=several)
            closed = end >= len(self.units) or self.units[end].folded in _CLOSES | {"and"}
            open_end = end >= len(self.units) and asks
            return (
                (names, end) if names and closed and not open_end and not self._is_possessive(end - 1) else ([], at)
            )
        if not asserts:
            return [], at
        start, was = at, False
        while at - start < _MOST_BETWEEN and self._is(at, _IS | _NOW | NAMED):
            was = was or self.units[at].folded in _WAS
            at += 1
        if at == start or (was and not phrase.is_for_life):
            return [], at
        names, end = self.reader.names(at, several=several, quoted=self._is(at - 1, NAMED))
        if not names or self._is_possessive(end - 1) or self._is(end, frozenset(["or"])):
            return [], at
        return names, end

    # -- Uncle Teo sings

    def _titled(self, at: int) -> RoleFound | None:
        """ "Uncle Teo" is the speaker's, unless somebody else's stands before it."""
        unit, before = self.units[at], self.units[at - 1] if at else None
        title, _, name = unit.folded.partition(" ")
        if (
            unit.kind != "name"
            or unit.quoted
            or unit.possessive
            or not name
            or title not in _TITLES
            or self.speaker is None
        ):
            return None
        if before is not None and (before.possessive or before.folded in OWNERS - FIRST_PERSON_OWNER | {"your"}):
            return None
        if unit.folded == self.speaker.casefold():
            return None
        role = RolePhrase(owner=self.speaker, article="", role=role_name(title), end=at + 1)
        return self._result(role, role.statements([unit.text]), at + 1, unit.text)

    # -- my boat is called Petrel, whatever it is

    def _called(self, at: int) -> RoleFound | None:
        """ "My boat is called Petrel", "our router's name is Baldur": of any noun."""
        first = self.units[at]
        owner = self.speaker if first.folded in ("my", "our") else first.text if first.possessive else None
        noun = ""
        for place in range(at + 1, min(at + 2 + _MOST_MODIFIERS, len(self.units))):
            unit = self.units[place]
            if owner is None or unit.kind != "word" or unit.folded in STOP_WORDS:
                return None
            if self._is(place + 1, _IS) and self._is(place + 2, NAMED):
                noun, at = unit.folded, place + 3
            elif unit.folded.endswith("'s") and self._is(place + 1, _NAME) and self._is(place + 2, _IS):
                noun, at = unit.folded.removesuffix("'s"), place + 3
            if noun:
                break
        if owner is None or not noun:
            return None
        names, end = self.reader.names(at, several=False, quoted=True)
        if not names or names[0] == owner or not noun.isalpha() or self._is_possessive(end - 1):
            return None
        return RoleFound(
            statements=[Statement(subject=names[0], relation=f"{noun} of", object=owner)], end=end, subject=names[0]
        )

    # -- Tom has a sister called Lea, two sons, Leo and Max

    def _had(self, at: int, subject: str) -> RoleFound | None:
        before = at
        at += 1
        at += self._is(at, frozenset(["got"]))
        if not self._is(at, _COUNTS):
            return None
        phrase = self.reader.noun(at + 1, subject)
        if phrase is None or phrase.place is not None or phrase.end >= len(self.units):
            return None
        names, end = self.reader.names(phrase.end, several=phrase.is_plural)
        if not names and self._is(phrase.end, NAMED | _OPENS | {":"}):
            comma = not self._is(phrase.end, NAMED)
            names, end = self.reader.names(phrase.end + 1, several=phrase.is_plural, quoted=not comma)
            if comma and end < len(self.units) and self.units[end].folded not in _CLOSES | {"and"}:
                return None
        if not names or self._is_possessive(end - 1):
            return None
        owners = self.group_before(before) or [subject]
        statements = [one for owner in owners for one in replace(phrase, owner=owner).statements(names)]
        if not phrase.is_person and phrase.role not in POSSESSIONS:
            statements = [Statement(subject=subject, relation="has", object=name) for name in names] + statements
        return self._result(phrase, statements, end, subject) if statements else None

    # -- Lea and Tom are married, are cousins

    def _together(self, at: int) -> RoleFound | None:
        relation = TOGETHER[self.units[at].folded]
        place = at
        while place > 0 and at - place < _MOST_BETWEEN and self._is_between(place - 1):
            place -= 1
        if not any(unit.folded in ("are", "we're", "got") for unit in self.units[place:at]) and place != at:
            return None
        group = self.group_before(place)
        if len(group) < 2 or (place == at and self.units[at].folded != "divorced"):
            return None
        if self._name(at + 1) is not None or self._is(at + 1, frozenset(["to", "from", "with"])):
            return None
        others = [Statement(subject=group[0], relation=relation, object=name) for name in group[1:]]
        return RoleFound(statements=others, end=at + 1, subject=None)

    def _is_between(self, at: int) -> bool:
        return self._is(at, frozenset("are got both all old good best close just now second first".split()))

    def group_before(self, at: int) -> list[str]:
        """The people joined by commas and "and" who stand before a unit at the start of a clause; else none."""
        at -= 1
        for _ in range(_MOST_BETWEEN):
            at -= self._is(at, _BETWEEN_GROUP)
        found: list[str] = []
        while at >= 0 and len(found) < _MOST_GROUP:
            unit = self.units[at]
            name = self.speaker if unit.folded == "i" else self._name(at)
            if name is None:
                return []
            found.append(name)
            at -= 1
            if not self._is(at, frozenset(["and", ","])):
                break
            at -= 1 + (self._is(at, frozenset(["and"])) and self._is(at - 1, frozenset([","])))
        opened = (
            at < 0 or self.units[at].kind == "mark" or self._is(at, frozenset("that because so but both".split()))
        )
        return list(dict.fromkeys(reversed(found))) if opened and len(found) > 1 else []

    # -- shared

    def _known(self, phrase: RolePhrase) -> RoleFound | None:
        """ "My sister", when the text has said who that is."""
        if phrase.owner is None or phrase.is_plural or not phrase.is_current or phrase.asks_name:
            return None
        known = self.persons.relative(phrase.owner, phrase.role)
        return RoleFound(statements=[], end=phrase.end, subject=known) if known is not None else None

    def _result(self, phrase: RolePhrase, statements: list[Statement], end: int, subject: str) -> RoleFound:
        for one in statements:
            if phrase.role not in POSSESSIONS and phrase.role not in OWN_THINGS:
                self.persons.is_kin(one.subject, phrase.role, one.object)
        return RoleFound(statements=statements, end=end, subject=subject)

    def _copula_before(self, at: int) -> str | None:
        """The form of "be" before a unit, with "now" or "still" between them at most."""
        at -= 1
        steps = 0
        while at >= 0 and steps < _MOST_BETWEEN:
            folded = self.units[at].folded
            if folded in BE or folded in ("became", "becomes", "become"):
                return folded
            if folded == "been":
                return "is"
            if folded not in FILLERS:
                return None
            at -= 1
            steps += 1
        return None

    def _is(self, at: int, words: frozenset[str]) -> bool:
        return 0 <= at < len(self.units) and self.units[at].folded in words

    def _is_possessive(self, at: int) -> bool:
        return self.units[at].possessive

    def _name(self, at: int) -> str | None:
        name = self._any_name(at)
        return name if name is not None and not self.units[at].possessive else None

    def _any_name(self, at: int) -> str | None:
        if not 0 <= at < len(self.units):
            return None
        unit = self.units[at]
        is_name = (unit.kind == "name" and not unit.quoted) or self.reader.is_month_name(at)
        return unit.text if is_name and unit.folded not in NATIONALITIES else None

    def is_month_subject(self, at: int) -> bool:
        """Whether somebody who is called like a month is the subject here: "June is my sister"."""
        return self._is(at + 1, BE) and self.reader.is_month_name(at)
