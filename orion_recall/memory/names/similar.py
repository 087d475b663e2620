"""Names that are spelt alike, and the reasons not to merge two of them. Every guard is symmetric.

Names are compared that share a word, a beginning, an end or their initials. In a large group of these (everybody
of one first name) each is compared with those next to it by alphabet only, so that the work grows with the names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from rapidfuzz import fuzz

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


_LARGE, _WINDOW = 40, 8
_EDGE = 4
_BY_INITIAL, _BY_ACRONYM = 0.95, 0.9
_MOST_ACRONYM = 8


@dataclass(frozen=True, slots=True)
class _Name:
    folded: str
    plain: str
    sorted: str
    words: tuple[str, ...]
    has_initial: bool


def similar_pairs(labels: Iterable[str], kind: NameKind, min_string: float) -> dict[tuple[str, str], float]:
    """The pairs of different names whose spelling is at least so similar, in [0, 1]; the lesser name comes first.

    Labels that differ in case only are one name; the pairs are of names with their case folded.
    """
    names = [_name(folded, kind) for folded in sorted({label.casefold() for label in labels})]
    found: dict[tuple[str, str], float] = {}
    for one, other in _near(names):
        score = _similarity(one, other, min_string)
        if score >= min_string:
            found[one.folded, other.folded] = score
    return found


def string_similarity(one: str, other: str, kind: NameKind = "entity") -> float:
    """How alike two labels are spelt, in [0, 1], the same both ways; the order of words and titles do not count.

    An initial that stands for a word, and an abbreviation of all the words, count as nearly the same.
    """
    return _similarity(_name(one.casefold(), kind), _name(other.casefold(), kind), 0.0)


def _name(folded: str, kind: NameKind) -> _Name:
    said = core(folded, kind)
    has_initial = any(len(word) == 1 for word in said)
    return _Name(folded, " ".join(said), " ".join(sorted(said)), tuple(said), has_initial)


def _near(names: Sequence[_Name]) -> Iterator[tuple[_Name, _Name]]:
    """Pairs worth a comparison; one may come more than once. The names are in order."""
    groups: dict[str, list[_Name]] = defaultdict(list)
    for name in names:
        for key in _keys(name):
            groups[key].append(name)
    for group in groups.values():
        if len(group) <= _LARGE:
            yield from combinations(group, 2)
        else:
            for place, name in enumerate(group):
                for other in group[place + 1 : place + 1 + _WINDOW]:
                    yield name, other


def _keys(name: _Name) -> set[str]:
    squeezed = "".join(name.words)
    initials = "".join(word[0] for word in name.words)
    keys = {f"word {word}" for word in name.words if len(word) > 1}
    keys |= {f"head {squeezed[:_EDGE]}", f"tail {squeezed[-_EDGE:]}"}
    if len(initials) > 2:
        keys.add(f"initials {initials}")
    elif len(name.words) == 1 and 2 < len(squeezed) <= _MOST_ACRONYM:
        keys.add(f"initials {squeezed}")
    return keys


def _similarity(one: _Name, other: _Name, at_least: float) -> float:
    if one.sorted == other.sorted:
        return 1.0
    if (one.has_initial or other.has_initial) and _is_by_initials(one.words, other.words):
        return _BY_INITIAL
    if len(one.words) != len(other.words) and (_is_acronym(one, other) or _is_acronym(other, one)):
        return _BY_ACRONYM
    cutoff = 100 * at_least
    plain = fuzz.ratio(one.plain, other.plain, score_cutoff=cutoff)
    if one.plain == one.sorted and other.plain == other.sorted:
        return plain / 100
    return max(plain, fuzz.ratio(one.sorted, other.sorted, score_cutoff=cutoff)) / 100


def _is_by_initials(one: Sequence[str], other: Sequence[str]) -> bool:
    """`r miles` for `robert miles`: some words are initials of those in their places, and the last is whole."""
    if len(one) != len(other) or len(one) < 2 or one[-1] != other[-1] or len(one[-1]) < 2:
        return False
    return all(
        first == second or (1 in (len(first), len(second)) and first[0] == second[0])
        for first, second in zip(one, other, strict=True)
    )


def _is_acronym(short: _Name, long: _Name) -> bool:
    return (
        len(short.words) == 1
        and 2 < len(long.words) <= _MOST_ACRONYM
        and short.words[0] == "".join(word[0] for word in long.words)
    )
