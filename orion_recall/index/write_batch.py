"""Write batches of the index: the points to write and to delete for a batch of outbox changes.

The same for every engine. What is unchanged keeps its vectors, and is not embedded again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from orion_recall.foreground import FOREGROUND
from orion_recall.index.points import (
    GivenTokens,
    HalfTokens,
    HeldName,
    HeldPoint,
    IndexPoint,
    Name,
    entity_payload,
    memory_payload,
    names_given,
    told_payload,
    told_times_of,
)
from orion_recall.index.texts import (
    context_form,
    dense_forms,
    flat,
    keyword_form,
    passage_key,
    passage_payload,
    spans_of,
)
from orion_recall.models.batching import Vector
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, union
from orion_recall.models.token_space import TokenVectors
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, MergedName

T = TypeVar("T")

# The texts of the page of the outbox that is written, of the two that are prepared, and what is told again of
# these: beyond that nothing is asked for twice.
_KEPT = 800
# Vectors alone, of names or of texts: 6 MB at the most.
_PLAIN_KEPT = 4000
# About five milliseconds of encoding.
_AT_A_TIME = 8


class Embedded(NamedTuple):
    """A text's unit vector, shape (dimension,), and those of its tokens, float16, shape (tokens, width)."""

    dense: Vector
    tokens: HalfTokens | None


class VectorPrefetch:
    """Embeds documents and keeps the latest few hundred vectors: a prefetched text is not embedded twice.

    `with_tokens`: whether the vectors of tokens are wanted as well, where the embedder gives them.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[bytes, Embedded] = OrderedDict()
        self._plain: OrderedDict[bytes, Vector] = OrderedDict()
        self.with_tokens = False

    async def vectors(self, texts: Sequence[str]) -> list[Embedded]:
        """The vectors of the texts, in their order."""
        if not self.with_tokens or not isinstance(embedder := self._embedder, TokenVectors):
            return [Embedded(vector, None) for vector in await self.plain(texts)]

        async def make(missing: Sequence[str]) -> list[Embedded]:
            both = zip(*await embedder.documents_with_tokens(missing), strict=True)
            return [Embedded(vector.copy(), tokens.astype(np.float16)) for vector, tokens in both]

        return await _kept_or_made(self._kept, _KEPT, texts, make)

    async def plain(self, texts: Sequence[str]) -> list[Vector]:
        """The unit vectors of the texts, in their order, without tokens: as of names, which are compared whole."""

        async def make(missing: Sequence[str]) -> list[Vector]:
            return [vector.copy() for vector in await self._embedder.embed_documents(missing)]

        return await _kept_or_made(self._plain, _PLAIN_KEPT, texts, make)


async def _kept_or_made(
    kept: OrderedDict[bytes, T],
    most: int,
    texts: Sequence[str],
    make: Callable[[Sequence[str]], Awaitable[list[T]]],
) -> list[T]:
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    found = {key: kept[key] for key in keys if key in kept}
    if missing := {key: text for key, text in zip(keys, texts, strict=True) if key not in found}:
        found |= zip(missing, await make(list(missing.values())), strict=True)
    for key, value in found.items():
        kept[key] = value
        kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
    return [found[key] for key in keys]


class PointVectors(NamedTuple):
    """The vectors of a memory: as they were read, or as they were made.

    `further` are those of its passages after the first; None where the index holds them already."""

    dense: Sequence[float] | Vector
    tokens: GivenTokens
    further: Sequence[Embedded] | None = None


class WriteBatch(NamedTuple):
    """The writes of a batch of changes. Idempotent.

    `points` are written, the keys of `gone` deleted, and so are entities of `forgotten` names that no other memory
    has. `replaced` are memories whose further passages are those of `points` and no others.
    """

    points: list[IndexPoint]
    gone: list[int]
    forgotten: list[Name]
    replaced: Sequence[int] = ()


class Held(NamedTuple):
    """What an index holds of the memories that changes are about, and of the entities they name, by key."""

    points: Mapping[int, HeldPoint]
    names: Mapping[int, HeldName] = MappingProxyType({})


def keys_of(changes: Sequence[Change]) -> list[int]:
    """The keys of the memories that the changes are about, each once."""
    return list(_latest(changes))


def name_keys_of(changes: Sequence[Change]) -> list[int]:
    """The keys of the entities that the changes' live memories name, each once."""
    return [name.key for name in _called(_live(_latest(changes)).values())]


async def build_write_batch(
    changes: Sequence[Change], held: Held, embedder: VectorPrefetch, sparse: SparseEncoder
) -> WriteBatch:
    """The write batch, given what the index holds of the changes' memories and of their entities.

    An unchanged memory, which comes because its neighbours changed, keeps its vectors, and so does a known name. An
    entity that the index holds as it is called now is not written again.
    """
    vectors, named = await embedded(changes, held, embedder)
    # The words of a page take tens of milliseconds: not on the loop, where recalls wait.
    return await asyncio.to_thread(_batch, _latest(changes), held, vectors, named, sparse)


async def embedded(
    changes: Sequence[Change], held: Held, embedder: VectorPrefetch
) -> tuple[dict[int, PointVectors], dict[str, Sequence[float]]]:
    """The vectors of a write batch: of its memories by key, and of names, which several tenants may share.

    What the index holds is not embedded again.
    """
    live = _live(_latest(changes))
    vectors = _known(live, held.points, embedder.with_tokens)
    texts = {key: dense_forms(change.memory) for key, change in live.items() if key not in vectors}
    made = iter(await embedder.vectors(list(chain.from_iterable(texts.values()))))
    for key, of_one in texts.items():
        first, *further = islice(made, len(of_one))
        vectors[key] = PointVectors(first.dense, first.tokens, further)
    named = {one.label: one.vector for one in held.names.values()}
    labels = list(dict.fromkeys(one.label for one in _called(live.values()).values() if one.label not in named))
    named |= zip(labels, [vector.tolist() for vector in await embedder.plain(labels)], strict=True)
    return vectors, named


def _latest(changes: Sequence[Change]) -> dict[int, Change]:
    return {memory_key(change.memory.tenant, change.memory.id): change for change in changes}


def _live(latest: Mapping[int, Change]) -> dict[int, Change]:
    return {key: change for key, change in latest.items() if change.memory.is_live}


def _batch(
    latest: Mapping[int, Change],
    held: Held,
    vectors: Mapping[int, PointVectors],
    named: Mapping[str, Sequence[float]],
    sparse: SparseEncoder,
) -> WriteBatch:
    live = _live(latest)
    points: list[IndexPoint] = []
    for key, change in FOREGROUND.throttled(live.items(), _AT_A_TIME):
        made, payload = vectors[key], memory_payload(change)
        for number, one in enumerate(made.further or (), start=1):
            of_passage = passage_payload(key, payload)
            points.append(IndexPoint(passage_key(key, number), one.dense, {}, of_passage, one.tokens))
        # The memory comes last: where it is written, so are its passages.
        forms = {"text": keyword_form(change.memory), "context": context_form(change)}
        terms = {name: sparse.encode_document(form) for name, form in forms.items()}
        points.append(IndexPoint(key, made.dense, terms, payload, made.tokens))
    for name, one in _called(live.values()).items():
        known = held.names.get(name.key)
        if known is None or (known.label, known.aliases) != (one.label, one.aliases):
            # Each name by itself: one of many names is found as well as one of one.
            words = {"entity": union([sparse.encode_document(each) for each in (one.label, *one.aliases)])}
            points.append(IndexPoint(name.key, None, words, entity_payload(name, one), name=named[one.label]))
    told = {Name(change.memory.tenant, name) for change in live.values() for name in names_given(change.memory)}
    before = {Name(one.tenant, name) for key, one in held.points.items() if key in latest for name in one.names}
    return WriteBatch(
        points=points,
        gone=[key for key in latest if key not in live],
        forgotten=sorted(before - told),
        replaced=[key for key in latest if key not in live or vectors[key].further is not None],
    )


def _known(live: Mapping[int, Change], held: Mapping[int, HeldPoint], with_tokens: bool) -> dict[int, PointVectors]:
    """The vectors that the index holds of what has not been changed since."""
    known: dict[int, PointVectors] = {}
    for key, change in live.items():
        one = held.get(key)
        if one is None or one.dense is None or one.version != change.memory.version:
            continue
        if one.passages != (spans := flat(spans_of(change.memory))) or one.restated != change.memory.restated:
            continue  # written before there were passages, cut otherwise, or restated since: that makes no version
        if spans and one.told != told_times_of(told_payload(change.memory.times)):
            continue  # extraction makes no version, and each passage has the times as well
        if one.tokens is not None or not with_tokens:
            known[key] = PointVectors(one.dense, one.tokens if with_tokens else None)
    return known


def _called(changes: Iterable[Change]) -> dict[Name, MergedName]:
    """Every entity named, in order: how it is called, and what was merged into it."""
    spelt: dict[Name, str] = {}
    merged: dict[Name, MergedName] = {}
    for change in changes:
        for label in change.memory.entities:
            spelt.setdefault(Name(change.memory.tenant, label.casefold()), label)
        for one in change.merged:
            merged[Name(change.memory.tenant, one.label.casefold())] = one
    return {name: merged.get(name, MergedName(label=label, aliases=())) for name, label in sorted(spelt.items())}
