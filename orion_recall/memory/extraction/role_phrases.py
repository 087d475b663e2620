"""Role phrases: "my older sister", "Ana's team lead at Fjord Labs", "the boss", with whose role it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orion_recall.memory.extraction.persons import Persons
from orion_recall.memory.extraction.role_lists import (
    ADJECTIVES,
    HONORIFICS,
    NATIONALITIES,
    NOT_YET,
    OFFICES,
    OWN_THINGS,
    PAST,
    PAST_OF_OFFICES,
    PETS,
    POSSESSIONS,
    RELATIVES,
    role_of,
    two_word_role,
)
from orion_recall.memory.extraction.units import Unit, is_named_like_a_month
from orion_recall.memory.extraction.word_lists import BE, FILLERS, FIRST_PERSON_OWNER, NAMED, THIRD_PERSON_OWNER
from orion_recall.text.normal import STOP_WORDS
from orion_recall.values import Statement

_MOST_WORDS = 5
_MOST_PLAIN = 2
_MOST_NAMES = 4
_MOST_CHAIN = 2
BEFORE_BARE = BE | FILLERS | {",", "(", "–", "—"}
_PLACE_PREPOSITIONS = ("at", "with", "in", "from")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePhrase:
    """A role and whose it is.

    `owner` is None where the phrase does not say: then `article` is "a", "the", "your" or "". `end` is the unit
    after it. With `asks_name` it ended in "'s name". `is_current` is false for a former or a future one.
    """

    owner: str | None
    article: str
    role: str
    end: int
    is_plural: bool = False
    place: str | None = None
    asks_name: bool = False
    is_current: bool = True

    @property
    def is_person(self) -> bool:
        return self.role not in PETS and self.role not in POSSESSIONS and self.role not in OWN_THINGS

    @property
    def is_for_life(self) -> bool:
        """Whether "was" states it as well as "is"."""
        return self.role in RELATIVES or self.role in PETS

    @property
    def is_office(self) -> bool:
        """Whether there is one, so that "the" is enough to say whose."""
        return self.role in OFFICES or " " in self.role

    def statements(self, names: Sequence[str], owner: str | None = None) -> list[Statement]:
        """That each of the names is it, for its owner or the one given; none for a former one."""
        owner = self.owner or owner
        if not self.is_current:
            return []
        found: list[Statement] = []
        for name in names:
            if owner is not None and not _same(name, owner):
                if relation := POSSESSIONS.get(self.role):
                    found.append(Statement(subject=owner, relation=relation, object=name))
                else:
                    found.append(Statement(subject=name, relation=f"{self.role} of", object=owner))
            if self.place is not None and self.place != name and self.role not in RELATIVES:
                found.append(Statement(subject=name, relation=f"{self.role} at", object=self.place))
        return found


def _same(name: str, owner: str) -> bool:
    """Whether it is the owner's own name, perhaps in full: Ana is Ana Silva."""
    return set(owner.casefold().split()) <= set(name.casefold().split())


class RoleReader:
    """Reads role phrases, and the names beside them, in the units of one sentence."""

    def __init__(self, units: tuple[Unit, ...], speaker: str | None, persons: Persons) -> None:
        self.units = units
        self.speaker = speaker
        self.persons = persons

    def phrase(self, at: int) -> RolePhrase | None:
        """The role phrase that begins at a unit."""
        first = self.units[at]
        if first.folded in FIRST_PERSON_OWNER:
            return self.noun(at + 1, self.speaker) if self.speaker is not None else None
        if first.folded in THIRD_PERSON_OWNER:
            owner = self.persons.meant(first.folded)
            return self.noun(at + 1, owner) if owner is not None else None
        if first.kind == "name":
            return self.noun(at + 1, first.text) if first.possessive else None
        if first.folded in ("a", "an", "the", "your"):
            return self.noun(at + 1, None, first.folded)
        # "Ana, head of sales at Fjord Labs," and "Ana is CEO of Fjord Labs".
        before = self.units[at - 1].folded if at else ""
        return self.noun(at, None) if before in BEFORE_BARE else None

    def own_relative(self, at: int) -> RolePhrase | None:
        """ "Mum's name is Ruth", "Grandpa was called Walter": the speaker's, when no more than the name is told."""
        unit = self.units[at]
        if self.speaker is None or not unit.text[:1].isupper() or unit.quoted:
            return None
        role = role_of(unit.folded.removesuffix("'s"))
        if role is None or role[0] not in RELATIVES or role[1]:
            return None
        read = RolePhrase(owner=self.speaker, article="", role=role[0], end=at + 1)
        if (unit.possessive or unit.folded.endswith("'s")) and self._is(at + 1, "name"):
            return replace(read, end=at + 2, asks_name=True)
        is_called = at + 2 < len(self.units) and self.units[at + 2].folded in NAMED
        return read if is_called and self.units[at + 1].folded in ("is", "was") else None

    def noun(self, at: int, owner: str | None, article: str = "", chained: int = 0) -> RolePhrase | None:
        """The role phrase without its first word; up to five words of which the last is the role."""
        is_current, is_old, plain = True, False, 0
        for place in range(at, min(at + _MOST_WORDS, len(self.units))):
            unit = self.units[place]
            word = unit.folded.removesuffix("'s")
            if unit.kind == "mark" or (unit.kind == "name" and word not in NATIONALITIES):
                return None
            found = self._role(place, word)
            if found and not found[1] and self._is_compound(found[2], unit):
                is_current &= word != "ex"
                plain += 1
            elif found:
                role, is_plural, end = found
                if role == "partner" and plain:
                    # A business partner is no partner.
                    role = f"{self.units[place - 1].folded} partner"
                is_current &= not (is_old and role not in RELATIVES | PETS | {"friend"})
                read = RolePhrase(
                    owner=owner, article=article, role=role, end=end, is_plural=is_plural, is_current=is_current
                )
                return self._completed(read, chained)
            elif word in PAST or word in NOT_YET:
                is_current = False
            elif word in ADJECTIVES or word in NATIONALITIES or word in PAST_OF_OFFICES:
                is_old |= word in PAST_OF_OFFICES
            elif plain == _MOST_PLAIN or unit.folded != word or not word.isalpha() or word in STOP_WORDS:
                return None
            else:
                plain += 1
        return None

    def _is_compound(self, at: int, role: Unit) -> bool:
        """Whether another role follows, which is the one that is meant: "work colleague", "club captain"."""
        if role.folded.endswith("'s") or at >= len(self.units):
            return False
        following = self.units[at]
        return following.kind == "word" and role_of(following.folded.removesuffix("'s")) is not None

    def _role(self, at: int, word: str) -> tuple[str, bool, int] | None:
        """The role that begins here: its name, whether it is several, and where it ends."""
        if at + 1 < len(self.units):
            two = two_word_role(word, self.units[at + 1].folded.removesuffix("'s"))
            if two is not None:
                return two, False, at + 2
        found = role_of(word)
        if found is None:
            return None
        role, is_plural = found
        if role in ("head", "director", "professor") and self._is(at + 1, "of") and self._plain(at + 2):
            end = at + 4 if self._plain(at + 3) and self._is_word(at + 3) else at + 3
            return f"{role} of {' '.join(unit.folded for unit in self.units[at + 2 : end])}", False, end
        return role, is_plural, at + 1

    def _completed(self, read: RolePhrase, chained: int) -> RolePhrase | None:
        """With the possessive and the place that follow: "my sister's name", "my sister's boss at Fjord Labs"."""
        last = self.units[read.end - 1].folded
        if last.endswith("'s"):
            if self._is(read.end, "name"):
                return replace(read, end=read.end + 1, asks_name=True)
            relative = self.persons.relative(read.owner, read.role) if read.owner is not None else None
            return self.noun(read.end, relative, "", chained + 1) if relative and chained < _MOST_CHAIN else None
        if read.end + 1 >= len(self.units) or self.units[read.end].folded not in _PLACE_PREPOSITIONS:
            return read
        place = self.units[read.end + 1]
        if not read.is_person or place.kind != "name" or place.possessive:
            return read
        is_work = self.units[read.end].folded in ("at", "with")
        return replace(read, end=read.end + 2, place=place.text if is_work else None)

    def names(self, at: int, *, several: bool, quoted: bool = False) -> tuple[list[str], int]:
        """The name that begins at a unit, after a title like "Mr"; with `several` the names of a list."""
        if at < len(self.units) and self.units[at].folded.rstrip(".") in HONORIFICS:
            at += 1
        found: list[str] = []
        while at < len(self.units) and len(found) < _MOST_NAMES:
            unit = self.units[at]
            is_name = unit.kind == "name" or self.is_month_name(at)
            if not is_name or (unit.quoted and not quoted) or unit.folded in NATIONALITIES:
                break
            found.append(unit.text)
            at += 1
            after = at
            while after < len(self.units) and self.units[after].folded in (",", "and", "&") and after - at < 2:
                after += 1
            goes_on = after < len(self.units) and self.units[after].kind == "name" and not unit.possessive
            if not several or after == at or not goes_on:
                break
            at = after
        return found, at

    def is_month_name(self, at: int) -> bool:
        """Whether the word is a month's that somebody is called here: "my sister June"."""
        unit = self.units[at]
        before = self.units[at - 1].folded if at else ""
        return unit.kind == "word" and unit.text[:1].isupper() and is_named_like_a_month(unit.folded, before)

    def _is(self, at: int, word: str) -> bool:
        return at < len(self.units) and self.units[at].folded == word

    def _is_word(self, at: int) -> bool:
        return at < len(self.units) and self.units[at].folded not in ("at", "for", "of", "in")

    def _plain(self, at: int) -> bool:
        if at >= len(self.units):
            return False
        unit = self.units[at]
        return unit.kind == "word" and unit.folded.isalpha() and unit.folded not in STOP_WORDS
