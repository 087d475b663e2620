"""Roles in notes, where no verb tells whose they are: "Deputy: Kofi", "Declan (husband)". They are the writer's."""

from __future__ import annotations

from orion_recall.memory.extraction.role_lists import NOTED_ROLES, PETS, RELATIVES, role_of
from orion_recall.memory.extraction.role_phrases import RolePhrase, RoleReader
from orion_recall.memory.extraction.role_sentences import RoleFound
from orion_recall.memory.extraction.units import Unit

_LINE_BEGINS = frozenset((";", ".", "-", "–", "—", "•", "*"))


class RoleNotes:
    """Finds them in the units of one sentence."""

    def __init__(self, units: tuple[Unit, ...], speaker: str | None, reader: RoleReader) -> None:
        self.units = units
        self.speaker = speaker
        self._reader = reader

    def find(self, at: int) -> RoleFound | None:
        """What is noted from a unit on."""
        if self.speaker is None:
            return None
        return self._labelled(at) or self._in_brackets(at)

    def _labelled(self, at: int) -> RoleFound | None:
        """ "Deputy: Kofi", alone in its line or in a list of such."""
        if at and self.units[at - 1].folded not in _LINE_BEGINS:
            return None
        phrase = self._role(at)
        if phrase is None or not self._is(phrase.end, ":"):
            return None
        names, end = self._reader.names(phrase.end + 1, several=phrase.is_plural)
        return self._found(phrase, names, end) if self._ends(end) else None

    def _in_brackets(self, at: int) -> RoleFound | None:
        """ "Declan (husband)"; not after another name, whose husband he may be."""
        if not self._is(at + 1, "(") or (phrase := self._role(at + 2)) is None or phrase.is_plural:
            return None
        if not self._is(phrase.end, ")") or self._names_others(at):
            return None
        names, end = self._reader.names(at, several=False)
        return self._found(phrase, names, phrase.end + 1) if end == at + 1 else None

    def _role(self, at: int) -> RolePhrase | None:
        if at >= len(self.units) or self.units[at].kind == "mark":
            return None
        phrase = self._reader.noun(at, self.speaker) or self._capitalised(at)
        if phrase is None or phrase.place is not None or phrase.asks_name:
            return None
        is_noted = phrase.role in NOTED_ROLES or phrase.role in RELATIVES or phrase.role in PETS
        return phrase if is_noted else None

    def _capitalised(self, at: int) -> RolePhrase | None:
        """ "Deputy" at the beginning of a line, which could be a name."""
        if (role := role_of(self.units[at].folded)) is None:
            return None
        return RolePhrase(owner=self.speaker, article="", role=role[0], end=at + 1, is_plural=role[1])

    def _names_others(self, at: int) -> bool:
        """Whether somebody is named before who is in no such note himself."""
        return any(
            self.units[place].kind == "name"
            and not self._is(place + 1, "(")
            and self.units[place].text != self.speaker
            for place in range(at)
        )

    def _found(self, phrase: RolePhrase, names: list[str], end: int) -> RoleFound | None:
        statements = phrase.statements(names)
        return RoleFound(statements=statements, end=end, subject=names[-1]) if statements else None

    def _ends(self, at: int) -> bool:
        return at >= len(self.units) or (self.units[at].kind == "mark" and self.units[at].text not in (":", "'"))

    def _is(self, at: int, text: str) -> bool:
        return at < len(self.units) and self.units[at].folded == text
