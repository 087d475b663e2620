"""Guards: reasons not to merge two similar names. Every guard is symmetric."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from orion_recall.memory.record.aliases import NameKind
from orion_recall.text.normal import words

Guard = Literal["number", "title", "direction", "tense", "opposite", "together"]

# Said before a name; a name is compared without it.
_MALE = frozenset("mr mister sir lord king prince duke herr monsieur señor signor uncle grandpa".split())
_FEMALE = frozenset(
    "mrs ms miss lady dame queen princess duchess frau madame madam señora signora aunt grandma".split()
)
TITLES = _MALE | _FEMALE | frozenset("dr doctor prof professor".split())
_SPELT_NUMBERS = frozenset(
    """one two three four five six seven eight nine ten eleven twelve first second third fourth fifth sixth seventh
    eighth ninth tenth last""".split()
)
_ROMAN = re.compile(r"(?=[ivx]{2})x{0,2}(?:ix|iv|v?i{0,3})")
# What a relation leads to, or which of its ends does it.
_DIRECTIONS = frozenset(
    """about after against as at before behind below between by for from in into near of off on onto over than
    through to toward towards under until upon via with within without""".split()
)
_PAST = frozenset("was were had did used been formerly previously".split())
_AUXILIARIES = frozenset("am is are be being has have do does a an the".split()) | _PAST
_NEGATIONS = frozenset("not no never nor neither".split())
_NEGATING_PREFIXES = ("dis", "un", "non", "mis", "de", "im", "in", "ir", "il")


def core(label: str, kind: NameKind) -> list[str]:
    """The words that make the name: without titles before a person's, or auxiliaries in a relation."""
    said = words(label)
    left_out = TITLES if kind == "entity" else _AUXILIARIES
    return [word for word in said if word not in left_out] or said


def guard(one: str, other: str, kind: NameKind) -> Guard | None:
    """Why two labels are not proposed to be one; None when nothing that they say speaks against it."""
    first, second = words(one), words(other)
    if _numbers(first) != _numbers(second):
        return "number"
    if kind == "entity":
        return "title" if _gender(first) | _gender(second) == {"male", "female"} else None
    if _of(first, _DIRECTIONS) != _of(second, _DIRECTIONS):
        return "direction"
    if _of(first, _NEGATIONS) != _of(second, _NEGATIONS) or _is_opposite(first, second):
        return "opposite"
    return "tense" if _is_past(first) != _is_past(second) else None


def _numbers(said: list[str]) -> Counter[str]:
    # No Roman number is the first word ("Vi Larsen"), and a single letter only the last ("Elizabeth I").
    return Counter(
        word
        for place, word in enumerate(said)
        if word in _SPELT_NUMBERS
        or any(character.isdigit() for character in word)
        or (place and _ROMAN.fullmatch(word))
        or (0 < place == len(said) - 1 and word in ("i", "v", "x"))
    )


def _gender(said: list[str]) -> set[str]:
    return {name for name, titles in (("male", _MALE), ("female", _FEMALE)) if not titles.isdisjoint(said[:-1])}


def _of(said: list[str], wanted: frozenset[str]) -> Counter[str]:
    return Counter(word for word in said if word in wanted)


def _is_opposite(first: list[str], second: list[str]) -> bool:
    more, less = Counter(first) - Counter(second), Counter(second) - Counter(first)
    return any(
        long == prefix + short
        for one, other in ((more, less), (less, more))
        for long in one
        for short in other
        for prefix in _NEGATING_PREFIXES
    )


def _is_past(said: list[str]) -> bool:
    return any(word in _PAST or (len(word) > 3 and word.endswith("ed")) for word in said)
