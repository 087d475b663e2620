"""Stated successions: a newer memory takes the place of an older one because somebody says so.

Three may say so: a message (`supersedes`), a person (`orion-recall memory succeeds`), and the extractor `llm` where
one is configured. Every statement is a `Verdict`. Nothing is guessed from words, numbers or dates: two door codes,
two releases or two tickets are two things. A model that judges pairs takes its place beside `stated_by_extractor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from orion_recall.values import Memory, Statement, SuccessionReason


class Verdict(NamedTuple):
    """That the newer memory succeeds the older one: the probability, the reason's code, the ids that state it."""

    probability: float
    reason: SuccessionReason
    evidence: tuple[str, ...] = ()


BY_PERSON: Final = Verdict(1.0, "by_person")


class SuccessionJudge(Protocol):
    """Judges two memories of one owner; None: neither takes the other's place."""

    def __call__(self, older: Memory, newer: Memory, /) -> Verdict | None: ...


ONE_VALUED: Final[Mapping[str, str]] = {
    "lives in": "home",
    "lives at": "home",
    "moved to": "home",
    "works at": "employer",
    "works for": "employer",
    "married to": "spouse",
    "is married to": "spouse",
    "reports to": "manager",
}
"""Relations of which one subject has one object at a time; those of one kind say the same."""
STATING: Final = "llm"
"""The extractor whose statements count: those of rules are too often of something else."""


def stated_by_extractor(older: Memory, newer: Memory, /) -> Verdict | None:
    """A verdict where both state one object of a one-valued relation of the same subject, and not the same one."""
    if older.extracted_by != STATING or newer.extracted_by != STATING:
        return None
    before, after = values_of(older.statements), values_of(newer.statements)
    for about in before.keys() & after.keys():
        (was, *others), (now, *further) = before[about], after[about]
        # "Lisbon" and "Lisbon, Portugal" are one place.
        if not others and not further and was not in now and now not in was:
            return Verdict(1.0, "by_extractor", (older.id, newer.id))
    return None


def values_of(statements: Sequence[Statement]) -> dict[tuple[str, str], list[str]]:
    """The objects of one-valued relations, by subject and kind of relation; all folded."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in statements:
        if (kind := ONE_VALUED.get(one.relation.casefold())) is not None:
            objects = found.setdefault((one.subject.casefold(), kind), [])
            if (name := one.object.casefold()) not in objects:
                objects.append(name)
    return found
