"""Coreference: whom "she" or "my sister", and what "it" means in a text, where that is clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from orion_recall.memory.extraction.units import Unit
from orion_recall.memory.extraction.word_lists import (
    BEFORE_PLACES,
    CALLS,
    FIRST_PERSON,
    HE,
    KIN_HE,
    KIN_SHE,
    MOVES,
    ORGANISATION_ENDS,
    SHE,
    THIRD_PERSON,
    VERBS,
)
from orion_recall.text.normal import STOP_WORDS
from orion_recall.when.direction import is_past_form

# Stands for whoever is meant when nobody was named yet: the turn before may tell. No name can be so.
UNKNOWN = "?"

# More persons than this in one sentence are as unclear as this many.
_MOST = 4
_MOST_RELATIVES = 64
_SHORT_CALL = 4
_ACRONYM_CHARS = 5
_Sex = Literal["she", "he"]


class Persons:
    """The persons of the current sentence, and of the last one before it that named any.

    The one that a sentence begins with is meant rather than the others in it; of several others nobody is. Whom
    a pronoun or a word such as "sister" has shown to be a woman is no "he" afterwards. The speaker is never meant.
    `from_before` are those of the turn before.
    """

    def __init__(self, speaker: str | None = None) -> None:
        self._speaker = speaker.casefold() if speaker is not None else None
        self._sexes: dict[str, _Sex] = {}
        self._now: list[str] = []
        self._leading: str | None = None
        self._before: tuple[list[str], str | None] = ([], None)
        self._things: list[str] = []
        self._things_before: list[str] = []
        # Whether this sentence, and the one before, begins with "it", which goes on about something older.
        self._is_it = self._was_it = False
        # Of whom, and what: the one name, or None where there are several.
        self._relatives: dict[tuple[str, str], str | None] = {}
        self.from_before: frozenset[str] = frozenset()

    def begin(self) -> None:
        """A new sentence."""
        if self._now or self._things:
            self._before = (self._now, self._leading) if self._now else self._before
            self._things_before, self._was_it = self._things, self._is_it
        self._is_it = False
        self._now, self._leading, self._things = [], None, []

    def read(self, units: Sequence[Unit], start: int, end: int) -> None:
        """Take note of who is named in a part of the sentence."""
        self._is_it = self._is_it or (start == 0 and units[0].folded in ("it", "its", "it's"))
        for at in range(start, end):
            if units[at].kind != "name":
                continue
            if _is_called(units, at) or _begins_fragment(units, at):
                continue
            if not _may_be_person(units, at):
                if units[at].text not in self._things and len(self._things) < _MOST:
                    self._things.append(units[at].text)
            else:
                self._name(units[at].text, leads=at == 0 and not _is_joined(units, 1))

    def is_kin(self, name: str, kin: str, owner: str | None = None) -> None:
        """The sentence is about this person, a sister of somebody, say (of `owner`, where that is given)."""
        if kin in KIN_SHE or kin in KIN_HE:
            self._sexes[name.casefold()] = "she" if kin in KIN_SHE else "he"
        self._name(name, leads=True)
        key = (owner.casefold(), kin) if owner is not None else None
        if key in self._relatives and self._relatives[key] != name:
            self._relatives[key] = None
        elif key is not None and len(self._relatives) < _MOST_RELATIVES:
            self._relatives[key] = name

    def relative(self, owner: str, kin: str) -> str | None:
        """Who was said to be somebody's sister, say; None when nobody was, or several."""
        return self._relatives.get((owner.casefold(), kin))

    def it_as_subject(self) -> str | None:
        """What "it" means where it is the subject: what the sentence before begins with, or is alone in it."""
        if self._was_it:
            return None
        named, leading = self._before
        if leading is not None:
            return leading if leading.casefold() not in self._sexes else None
        both = [*named, *self._things_before]
        return both[0] if len(both) == 1 and both[0].casefold() not in self._sexes else None

    def it(self, *, but: str | None = None) -> str | None:
        """The thing or place that "it" means as an object; None when nothing named can be it, or several."""
        named, leading = self._before
        for things, others in ((self._things, self._now), (self._things_before, named)):
            fitting = [name for name in things if name != but]
            if fitting:
                beside = [name for name in others if name not in (but, leading)]
                return fitting[0] if len(fitting) == 1 and len(beside) <= 1 else None
        if leading is None or leading == but or len(named) > 1 or leading.casefold() in self._sexes:
            return None
        return leading

    def follow(self, speaker: str | None, *, turn_before: str | None = None) -> None:
        """What was read is the turn before: its speaker is meant where it named nobody else."""
        self.begin()
        self._speaker = speaker.casefold() if speaker is not None else None
        named, leading = self._before
        named = [name for name in named if name.casefold() != self._speaker]
        if not named and turn_before is not None and turn_before.casefold() != self._speaker:
            named = [turn_before]
        self._before = (named, leading if leading in named else None)
        self.from_before = frozenset(named)

    def meant(self, pronoun: str, *, but: str | None = None) -> str | None:
        """The person; None when it may be one of several, UNKNOWN when nobody was named who could be."""
        sex: _Sex = "she" if pronoun in SHE else "he"
        assert pronoun in SHE or pronoun in HE
        for named, leading in ((self._now, self._leading), self._before):
            fitting = [name for name in named if name != but and self._sexes.get(name.casefold(), sex) == sex]
            if leading in fitting:
                fitting = [leading]
            if len(fitting) > 1:
                return None
            if fitting:
                self._sexes[fitting[0].casefold()] = sex
                return fitting[0]
        return UNKNOWN if not self._before[0] and not self._now else None

    def _name(self, name: str, *, leads: bool) -> None:
        if name.casefold() == self._speaker or name == UNKNOWN:
            return
        if leads and self._leading is None:
            self._leading = name
        if name in self._now:
            return
        if len(self._now) < _MOST:
            self._now.append(name)
        elif self._leading == name:
            self._now[-1] = name


def _may_be_person(units: Sequence[Unit], at: int) -> bool:
    unit = units[at]
    if unit.quoted or unit.folded.rpartition(" ")[2] in ORGANISATION_ENDS:
        return False
    if unit.text.isupper() and len(unit.text) <= _ACRONYM_CHARS:
        return False
    before = units[at - 1].folded if at else ""
    if before == "to":
        return at < 2 or units[at - 2].folded not in MOVES
    return before not in BEFORE_PLACES


def _begins_fragment(units: Sequence[Unit], at: int) -> bool:
    """Whether one word with a capital begins what has no verb: "Dental tech, six years" names nobody."""
    name, following = units[at], units[at + 1 : at + 2]
    if at or name.quoted or name.possessive or " " in name.text or not following:
        return False
    after = following[0]
    if after.kind != "word" or not after.text.islower() or after.folded in STOP_WORDS or after.folded[-1] in "sy":
        return False
    return not any(
        unit.folded in VERBS
        or unit.folded in FIRST_PERSON
        or unit.folded in THIRD_PERSON
        or is_past_form(unit.folded)
        for unit in units[1:]
    )


def _is_called(units: Sequence[Unit], at: int) -> bool:
    """Whether the name only calls somebody: "hey Sam", "thanks, Maria!"."""
    before = units[at - 1].folded if at else ""
    if before in CALLS:
        return True
    return before == "," and (
        (at == len(units) - 1 and at <= _SHORT_CALL) or (at > 1 and units[at - 2].folded in CALLS)
    )


def _is_joined(units: Sequence[Unit], at: int) -> bool:
    """Whether a name at the start goes on as a list, or is only called."""
    return at < len(units) and units[at].folded in ("and", "or", ",", "&")
