"""Nicknames: "we call her Apple", "Konstantin goes by Kosta", "Liz is short for Elizabeth", as `known as`."""

from __future__ import annotations

from orion_recall.memory.extraction.persons import Persons
from orion_recall.memory.extraction.units import Unit
from orion_recall.memory.extraction.word_lists import AFTER_LIST
from orion_recall.values import Statement

RELATION = "known as"
_CALLERS = frozenset("we i everyone everybody people friends they all colleagues kids children family".split())
_ALL_CALL = frozenset("everyone everybody people friends all colleagues kids children family".split())
_BETWEEN = frozenset("all just always only usually often still".split())
_TO_OTHERS = frozenset("his her my our their most all everyone everybody friends family us me".split())
_THE_OTHERS = frozenset("rest others world family kids children team neighbours neighbors".split())
# What stands between the name and the other one.
_SET_PHRASES: tuple[tuple[str, ...], ...] = (
    ("also", "known", "as"), ("better", "known", "as"), ("known", "as"), ("goes", "by"), ("aka",), ("nicknamed",),
    ("prefers", "to", "be", "called"), ("likes", "to", "be", "called"),
)  # fmt: skip
_STARTS = frozenset(words[0] for words in _SET_PHRASES) | {"call", "calls", "short", ","}

Found = tuple[list[Statement], int]


class NicknameReader:
    """Reads what somebody is called, in the units of one sentence."""

    def __init__(self, units: tuple[Unit, ...], speaker: str | None, persons: Persons) -> None:
        self.units = units
        self.speaker = speaker
        self.persons = persons

    def find(self, at: int, subject: str | None) -> Found | None:
        """The nickname that is told from a unit on, for the subject in force."""
        folded = self.units[at].folded
        if folded not in _STARTS:
            return None
        if folded in ("call", "calls"):
            return self._called(at)
        if folded == "short" and self._folded(at + 1) == "for":
            return self._pair(self._name(at + 2), self._name_before(at - 1, "is"), at + 3)
        if folded == "," and self._name(at + 1) is not None:
            return self._aside(at)
        for words in _SET_PHRASES:
            if folded == words[0] and all(self._folded(at + step) == word for step, word in enumerate(words)):
                return self._pair(
                    subject or self._name_before(at, ","), self._name(at + len(words)), at + len(words) + 1
                )
        return None

    def _called(self, at: int) -> Found | None:
        """ "We call her Apple"; "Kosta, as we call Konstantin"; "everyone calls Robert Bobo"."""
        caller = at - 1
        while caller > 0 and self._folded(caller) in _BETWEEN:
            caller -= 1
        if self._folded(caller) not in _CALLERS and self._folded(at - 1) not in _CALLERS:
            return None
        called = self._folded(at + 1)
        if called in ("her", "him"):
            return self._pair(self.persons.meant(called), self._name(at + 2), at + 3)
        if called == "me":
            return self._pair(self.speaker, self._name(at + 2), at + 3)
        name = self._name(at + 1)
        if name is None or not self._ends(at + 2):
            return None
        if self._folded(caller - 1) in ("as", "whom", "what"):
            return self._pair(name, self._name_before(caller - 1, ","), at + 2)
        whole, _, nickname = name.rpartition(" ")
        every = self._folded(caller) in _ALL_CALL or self._folded(at - 1) in _ALL_CALL
        return self._pair(whole, nickname, at + 2) if whole and every else None

    def _aside(self, at: int) -> Found | None:
        """ "Elizabeth, Liz to her friends,"; "Elizabeth, Liz for short,"."""
        after = self._folded(at + 2)
        is_aside = after == "to" and (
            self._folded(at + 3) in _TO_OTHERS
            or (self._folded(at + 3) == "the" and self._folded(at + 4) in _THE_OTHERS)
        )
        is_short = after == "for" and self._folded(at + 3) == "short"
        if not is_aside and not is_short:
            return None
        return self._pair(self._name(at - 1), self._name(at + 1), at + 2, checked=True)

    def _pair(self, name: str | None, nickname: str | None, end: int, *, checked: bool = False) -> Found | None:
        if name is None or nickname is None or name == nickname or not (checked or self._ends(end)):
            return None
        return [Statement(subject=name, relation=RELATION, object=nickname)], end

    def _name(self, at: int) -> str | None:
        if not 0 <= at < len(self.units):
            return None
        unit = self.units[at]
        return unit.text if unit.kind == "name" and not unit.possessive else None

    def _name_before(self, at: int, mark: str) -> str | None:
        return (
            self._name(at - 1)
            if self._folded(at) == mark
            else self._name(at - 2)
            if self._folded(at - 1) == mark
            else None
        )

    def _folded(self, at: int) -> str:
        return self.units[at].folded if 0 <= at < len(self.units) else ""

    def _ends(self, at: int) -> bool:
        return at >= len(self.units) or self.units[at].kind == "mark" or self.units[at].folded in AFTER_LIST
