"""Merge proposals: names that are alike in spelling and meaning, for people to judge; nothing is merged here.

Names are compared that share a word, a beginning, an end or their initials. In a large group of these (everybody
of one first name) each is compared with those next to it by alphabet only, so that the work grows with the names.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rapidfuzz import fuzz

from orion_recall.memory.record.aliases import NameKind
from orion_recall.models.embedder import Embedder
from orion_recall.text.normal import words

MIN_STRING, MIN_COSINE = 0.85, 0.8
_LARGE, _WINDOW, _EDGE = 40, 8, 4
_BY_INITIAL = 95.0
_NUMBER = re.compile(r"\d+")


class NamesUsed:
    """Names, case folded, with the memories that give them, by number: a million of them stay small."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._spellings: dict[str, Counter[str]] = defaultdict(Counter)
        self._given_in: dict[str, array[int]] = {}

    def add(self, memory_id: str, names: Iterable[str]) -> None:
        """One more memory, and the names that it gives."""
        place = len(self._ids)
        self._ids.append(memory_id)
        for folded, label in {name.casefold(): name for name in names}.items():
            self._spellings[folded][label] += 1
            self._given_in.setdefault(folded, array("L")).append(place)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._given_in))

    def label(self, folded: str) -> str:
        """The spelling that most memories have, the first by alphabet of several."""
        return min(self._spellings[folded].items(), key=lambda one: (-one[1], one[0]))[0]

    def count(self, folded: str) -> int:
        """How many memories give the name."""
        return len(self._given_in[folded])

    def examples(self, folded: str, limit: int) -> Sequence[str]:
        """The ids of the first memories that give it."""
        return tuple(self._ids[place] for place in self._given_in[folded][:limit])

    def are_together(self, one: str, other: str) -> bool:
        """Whether one memory gives both."""
        fewer, more = sorted((self._given_in[one], self._given_in[other]), key=len)
        return not set(fewer).isdisjoint(more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed merge of two names; the counts and examples are of the memories that give each."""

    id: str
    kind: NameKind
    alias: str
    into: str
    string: float
    cosine: float
    alias_memories: int
    into_memories: int
    examples: tuple[str, ...]


async def propose(
    names: NamesUsed,
    embedder: Embedder,
    *,
    tenant: str,
    kind: NameKind,
    min_string: float = MIN_STRING,
    min_cosine: float = MIN_COSINE,
) -> list[Proposal]:
    """The names that are alike in spelling and meaning, each with what it may be merged into, likeliest first.

    Names of one memory are two, unless only punctuation differs, and so are names whose numbers differ. Of two the
    one that more memories give stays, then the longer, then the first by alphabet; what stays is merged into
    nothing itself. ModelError when the names cannot be embedded.
    """
    pairs = await asyncio.to_thread(_alike, names, min_string)
    wanted = sorted({name for pair in pairs for name in pair})
    vectors = dict(zip(wanted, await embedder.embed_documents([names.label(one) for one in wanted]), strict=True))

    def place(name: str) -> tuple[int, int, str]:
        return -names.count(name), -len(names.label(name)), names.label(name)

    others: dict[str, list[tuple[float, str, float, float]]] = defaultdict(list)
    for (one, other), string in pairs.items():
        cosine = min(1.0, float(vectors[one] @ vectors[other]))
        if cosine >= min_cosine:
            stays, goes = sorted((one, other), key=place)
            others[goes].append((-round(string + cosine, 6), stays, string, cosine))
    found: dict[str, Proposal] = {}
    for alias in sorted(others, key=place):
        staying = [one for one in others[alias] if one[1] not in found]
        if staying:
            _, into, string, cosine = min(staying, key=lambda one: (one[0], place(one[1])))
            found[alias] = Proposal(
                id=hashlib.blake2b("\x1f".join((tenant, kind, alias, into)).encode(), digest_size=5).hexdigest(),
                kind=kind,
                alias=names.label(alias),
                into=names.label(into),
                string=round(string, 4),
                cosine=round(cosine, 4),
                alias_memories=names.count(alias),
                into_memories=names.count(into),
                examples=(*names.examples(alias, 2), *names.examples(into, 1)),
            )
    return sorted(found.values(), key=lambda one: (-round(one.string + one.cosine, 6), one.into, one.alias))


def _alike(names: NamesUsed, min_string: float) -> dict[tuple[str, str], float]:
    """The pairs that may be one name, with the similarity of their spelling; the lesser name comes first."""
    said = {name: tuple(words(name)) or (name,) for name in names}
    found: dict[tuple[str, str], float] = {}
    for one, other in _near(said):
        score = spelling_similarity(said[one], said[other])
        if score < min_string or _numbers(one) != _numbers(other):
            continue
        if said[one] == said[other] or not names.are_together(one, other):
            found[one, other] = score
    return found


def _near(said: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Pairs worth a comparison, each in order; one may come more than once."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, parts in said.items():
        squeezed = "".join(parts)
        keys = {f"word {word}" for word in parts if len(word) > 1}
        for key in keys | {f"head {squeezed[:_EDGE]}", f"tail {squeezed[-_EDGE:]}"}:
            groups[key].append(name)
    for group in groups.values():
        if len(group) <= _LARGE:
            yield from combinations(group, 2)
        else:
            for place, name in enumerate(group):
                yield from ((name, other) for other in group[place + 1 : place + 1 + _WINDOW])


def spelling_similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """How alike two names are spelt, in [0, 1], the same both ways; the order of their words does not count."""
    scores = [fuzz.token_sort_ratio(" ".join(one), " ".join(other)), fuzz.ratio(" ".join(one), " ".join(other))]
    if len(one) == len(other) > 1 and one[-1] == other[-1] and len(one[-1]) > 1:
        pairs = zip(one, other, strict=True)
        if all(a == b or (1 in (len(a), len(b)) and a[0] == b[0]) for a, b in pairs):
            scores.append(_BY_INITIAL)
    return max(scores) / 100


def _numbers(name: str) -> Counter[str]:
    return Counter(_NUMBER.findall(name))
