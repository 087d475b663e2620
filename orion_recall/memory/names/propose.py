"""Merge proposals: names that most likely mean the same, for people to judge; nothing is merged here."""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from orion_recall.memory.names.similar import Guard, core, guard, similar_pairs, string_similarity
from orion_recall.memory.record.aliases import NameKind
from orion_recall.models.embedder import Embedder


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

    def __len__(self) -> int:
        return len(self._given_in)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._given_in))

    def label(self, folded: str) -> str:
        """The spelling that most memories have, the first by alphabet of several."""
        return min(self._spellings[folded].items(), key=lambda one: (-one[1], one[0]))[0]

    def count(self, folded: str) -> int:
        """How many memories give the name."""
        return len(self._given_in[folded])

    def examples(self, folded: str, limit: int = 3) -> Sequence[str]:
        """The ids of the first memories that give it."""
        return tuple(self._ids[place] for place in self._given_in[folded][:limit])

    def are_together(self, one: str, other: str) -> bool:
        """Whether one memory gives both."""
        fewer, more = sorted((self._given_in[one], self._given_in[other]), key=len)
        return not set(fewer).isdisjoint(more)


MOST_NAMES = 20_000
"""Names that are compared; of more the first by alphabet. Each of them is compared with every other."""
_NEAREST, _BLOCK = 4, 512


async def pairs_by_meaning(
    labels: Sequence[str], embedder: Embedder, min_cosine: float
) -> dict[tuple[str, str], float]:
    """The pairs of different names with such a cosine at least, of each name its four nearest.

    Names have their case folded; the lesser comes first. ModelError when they cannot be embedded.
    """
    by_name = {label.casefold(): label for label in sorted(labels, reverse=True)}
    names = sorted(by_name)[:MOST_NAMES]
    if len(names) < 2:
        return {}
    vectors = await embedder.embed_documents([by_name[name] for name in names])
    return await asyncio.to_thread(_near, names, vectors, min_cosine)


def _near(
    names: Sequence[str], vectors: npt.NDArray[np.float32], min_cosine: float
) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for start in range(0, len(names), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ vectors.T
        for row in range(cosines.shape[0]):
            place = start + row
            cosines[row, place] = -1.0
            nearest: list[int] = np.argsort(-cosines[row], kind="stable")[:_NEAREST].tolist()
            for other in nearest:
                cosine = float(cosines[row, other])
                if cosine >= min_cosine:
                    pair = min(names[place], names[other]), max(names[place], names[other])
                    found[pair] = min(1.0, cosine)
    return found


MIN_STRING, MIN_COSINE = 0.85, 0.8
ProposedBy = Literal["both", "letters", "meaning"]
"""What two names must be alike in: spelling and meaning, spelling alone, or the vectors of the names alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed merge of two names; the counts and examples are of the memories that give each.

    `id` is the same for the same two names of a tenant. `string` and `cosine` are in [0, 1].
    """

    id: str
    kind: NameKind
    alias: str
    into: str
    string: float
    cosine: float
    alias_memories: int
    into_memories: int
    examples: tuple[str, ...]

    @property
    def score(self) -> float:
        """What they are ordered by."""
        return (self.string + self.cosine) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """Proposals, likeliest first, and how many similarly spelt pairs the guards rejected."""

    proposals: tuple[Proposal, ...]
    left_out: Mapping[Guard, int]


async def propose(
    names: NamesUsed,
    embedder: Embedder,
    *,
    tenant: str,
    kind: NameKind,
    min_string: float = MIN_STRING,
    min_cosine: float = MIN_COSINE,
    by: ProposedBy = "both",
) -> Proposals:
    """The names that are alike in spelling and meaning (or as `by` says), each with what it may be merged into.

    Of two the one that more memories give stays, then the longer, then the first by alphabet. A name that is to be
    merged is not merged into itself: what is proposed is no chain. ModelError when the names cannot be embedded.
    """
    if by == "meaning":
        similar = await pairs_by_meaning([names.label(one) for one in names], embedder, min_cosine)
        pairs, left_out = await asyncio.to_thread(_kept, names, kind, similar)
        alike = {pair: (string_similarity(*pair, kind=kind), cosine) for pair, cosine in pairs.items()}
    else:
        similar = await asyncio.to_thread(similar_pairs, names, kind, min_string)
        pairs, left_out = await asyncio.to_thread(_kept, names, kind, similar)
        cosines = await _cosines(names, pairs, embedder)
        least = min_cosine if by == "both" else -1.0
        alike = {pair: (string, cosines[pair]) for pair, string in pairs.items() if cosines[pair] >= least}
    found = _chosen(names, alike)
    proposals = [
        Proposal(
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
        for alias, (into, string, cosine) in found.items()
    ]
    proposals.sort(key=lambda one: (-round(one.score, 6), one.into, one.alias))
    return Proposals(proposals=tuple(proposals), left_out=left_out)


def _kept(
    names: NamesUsed, kind: NameKind, similar: Mapping[tuple[str, str], float]
) -> tuple[dict[tuple[str, str], float], dict[Guard, int]]:
    """The pairs that no guard rejects, and how many each guard does."""
    kept: dict[tuple[str, str], float] = {}
    left_out: Counter[Guard] = Counter()
    for (one, other), score in sorted(similar.items()):
        why = guard(names.label(one), names.label(other), kind)
        # Who names two in one breath means two, unless they differ in punctuation or a title alone.
        if why is None and kind == "entity" and core(one, kind) != core(other, kind):
            why = "together" if names.are_together(one, other) else None
        if why is None:
            kept[one, other] = score
        else:
            left_out[why] += 1
    return kept, dict(sorted(left_out.items()))


async def _cosines(
    names: NamesUsed, pairs: Mapping[tuple[str, str], float], embedder: Embedder
) -> dict[tuple[str, str], float]:
    wanted = sorted({name for pair in pairs for name in pair})
    if not wanted:
        return {}
    vectors = dict(zip(wanted, await embedder.embed_documents([names.label(one) for one in wanted]), strict=True))
    return {(one, other): min(1.0, float(vectors[one] @ vectors[other])) for one, other in pairs}


def _chosen(
    names: NamesUsed, alike: Mapping[tuple[str, str], tuple[float, float]]
) -> dict[str, tuple[str, float, float]]:
    """By name what it is merged into: the likest of those before it that stay."""

    def place(name: str) -> tuple[int, int, str]:
        return -names.count(name), -len(names.label(name)), names.label(name)

    others: dict[str, list[tuple[float, tuple[int, int, str], str]]] = {}
    for (one, other), (string, cosine) in alike.items():
        stays, goes = sorted((one, other), key=place)
        others.setdefault(goes, []).append((-round(string + cosine, 6), place(stays), stays))
    found: dict[str, tuple[str, float, float]] = {}
    for name in sorted(others, key=place):
        staying = [(score, stands, into) for score, stands, into in others[name] if into not in found]
        if staying:
            into = min(staying)[2]
            string, cosine = alike[min(name, into), max(name, into)]
            found[name] = (into, string, cosine)
    return found
