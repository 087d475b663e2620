"""Coreference: the person that "she" or "he" means in a text, where that is clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from orion_recall.memory.extraction.units import Unit
from orion_recall.memory.extraction.word_lists import (
    BEFORE_PLACES,
    HE,
    KIN_HE,
    KIN_SHE,
    MOVES,
    ORGANISATION_ENDS,
    SHE,
)

# Stands for whoever is meant when nobody was named yet: the turn before may tell. No name can be so.
UNKNOWN = "?"

# More persons than this in one sentence are as unclear as this many.
_MOST = 4
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
        self.from_before: frozenset[str] = frozenset()

    def begin(self) -> None:
        """A new sentence."""
        if self._now:
            self._before = (self._now, self._leading)
        self._now, self._leading = [], None

    def read(self, units: Sequence[Unit], start: int, end: int) -> None:
        """Take note of who is named in a part of the sentence."""
        for at in range(start, end):
            if units[at].kind == "name" and _may_be_person(units, at):
                self._name(units[at].text, leads=at == 0 and not _is_joined(units, 1))

    def is_kin(self, name: str, kin: str) -> None:
        """The sentence is about this person, a sister of somebody, say."""
        if kin in KIN_SHE or kin in KIN_HE:
            self._sexes[name.casefold()] = "she" if kin in KIN_SHE else "he"
        self._name(name, leads=True)

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


def _is_joined(units: Sequence[Unit], at: int) -> bool:
    """Whether a name at the start goes on as a list, or is only called."""
    return at < len(units) and units[at].folded in ("and", "or", ",", "&")
