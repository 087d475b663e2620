"""Write batches of the index: the points to write and to delete for a batch of outbox changes.

The same for every engine. What is unchanged keeps its vectors, and is not embedded again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from orion_recall.foreground import FOREGROUND
from orion_recall.index.passages import dense_forms, flat, passage_key, passage_payload, spans_of
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
from orion_recall.index.text_forms import context_form, keyword_form
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
# The names in them, which have no vectors of tokens: 6 MB at the most.
_NAMES_KEPT = 4000


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
        self._names_kept: OrderedDict[bytes, Vector] = OrderedDict()
        self.with_tokens = False

    async def vectors(self, texts: Sequence[str]) -> list[Embedded]:
        """The vectors of the texts, in their order."""
        keys = [_key(text) for text in texts]
        found = {key: self._kept[key] for key in keys if key in self._kept and self._serves(self._kept[key])}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            found |= dict(zip(missing, await self._made(list(missing.values())), strict=True))
        _keep(self._kept, found, _KEPT)
        return [found[key] for key in keys]

    async def of_names(self, labels: Sequence[str]) -> list[Vector]:
        """The unit vectors of names, in their order. Names are compared as a whole: never with those of tokens."""
        keys = [_key(label) for label in labels]
        found = {key: self._names_kept[key] for key in keys if key in self._names_kept}
        missing = {key: label for key, label in zip(keys, labels, strict=True) if key not in found}
        if missing:
            made = await self._embedder.embed_documents(list(missing.values()))
            found |= {key: vector.copy() for key, vector in zip(missing, made, strict=True)}
        _keep(self._names_kept, found, _NAMES_KEPT)
        return [found[key] for key in keys]

    def _serves(self, kept: Embedded) -> bool:
        return kept.tokens is not None or not self.with_tokens

    async def _made(self, texts: Sequence[str]) -> list[Embedded]:
        if not self.with_tokens or not isinstance(self._embedder, TokenVectors):
            return [Embedded(vector.copy(), None) for vector in await self._embedder.embed_documents(texts)]
        vectors, tokens = await self._embedder.documents_with_tokens(texts)
        return [
            Embedded(vector.copy(), theirs.astype(np.float16))
            for vector, theirs in zip(vectors, tokens, strict=True)
        ]


def _keep(kept: OrderedDict[bytes, T], latest: Mapping[bytes, T], most: int) -> None:
    for key, value in latest.items():
        kept[key] = value
        kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


# About five milliseconds of encoding.
_AT_A_TIME = 8


class PointVectors(NamedTuple):
    """The vectors of a memory: as they were read, or as they were made.

    `further` are those of its passages after the first; None where the index holds them already."""

    dense: Sequence[float] | Vector
    tokens: GivenTokens
    further: Sequence[Embedded] | None = None


_NO_NAMES: Mapping[int, HeldName] = {}


class WriteBatch(NamedTuple):
    """The writes of a batch of changes. Idempotent.

    `points` are written, `gone` are keys to delete. `forgotten` are names that these memories no longer have: the
    entity of one that no other memory has is deleted, too. `replaced` are memories whose further passages are those
    of `points` and no others.
    """

    points: list[IndexPoint]
    gone: list[int]
    forgotten: list[Name]
    replaced: Sequence[int] = ()


def keys_of(changes: Sequence[Change]) -> list[int]:
    """The keys of the memories that the changes are about, each once."""
    return list(dict.fromkeys(memory_key(change.memory.tenant, change.memory.id) for change in changes))


def name_keys_of(changes: Sequence[Change]) -> list[int]:
    """The keys of the entities that the changes' live memories name, each once."""
    return [name.key for name in _called(_live(_latest(changes)).values())]


async def build_write_batch(
    changes: Sequence[Change],
    held: Mapping[int, HeldPoint],
    embedder: VectorPrefetch,
    sparse: SparseEncoder,
    *,
    names: Mapping[int, HeldName] = _NO_NAMES,
    with_tokens: bool = False,
) -> WriteBatch:
    """The write batch, given what the index holds of the changes' memories and of their entities.

    An unchanged memory, which comes because its neighbours changed, keeps its vectors, and so does a known name. An
    entity that the index holds as it is called now is not written again.
    `with_tokens`: the index holds the vectors of the memories' tokens.
    """
    latest = _latest(changes)
    live = _live(latest)
    vectors = await _vectors(live, held, embedder, with_tokens)
    called = {name: one for name, one in _called(live.values()).items() if not _is_held(one, names.get(name.key))}
    named = await _vectors_of_names(called, names, embedder)

    def step() -> WriteBatch:
        batch = _memories(latest, held, vectors, sparse)
        batch.points.extend(_entities(called, named, sparse))
        return batch

    # The words of a page take tens of milliseconds: not on the loop, where recalls wait.
    return await asyncio.to_thread(step)


def texts_to_embed(
    changes: Sequence[Change], held: Mapping[int, HeldPoint], *, with_tokens: bool = False
) -> list[str]:
    """The texts that `build_write_batch` will embed, given what the index holds now."""
    live = _live(_latest(changes))
    known = _known(live, held, with_tokens)
    return [text for key, change in live.items() if key not in known for text in dense_forms(change.memory)]


def names_to_embed(changes: Sequence[Change], names: Mapping[int, HeldName]) -> list[str]:
    """The entity names that `build_write_batch` will embed, given what the index holds now."""
    return _new_labels(_called(_live(_latest(changes)).values()), names)


def _latest(changes: Sequence[Change]) -> dict[int, Change]:
    return {memory_key(change.memory.tenant, change.memory.id): change for change in changes}


def _live(latest: Mapping[int, Change]) -> dict[int, Change]:
    return {key: change for key, change in latest.items() if change.memory.is_live}


def _memories(
    latest: Mapping[int, Change],
    held: Mapping[int, HeldPoint],
    vectors: Mapping[int, PointVectors],
    sparse: SparseEncoder,
) -> WriteBatch:
    live = _live(latest)
    points: list[IndexPoint] = []
    for key, change in FOREGROUND.throttled(live.items(), _AT_A_TIME):
        made = vectors[key]
        own = IndexPoint(
            key=key,
            dense=made.dense,
            tokens=made.tokens,
            sparse={
                "text": sparse.encode_document(keyword_form(change.memory)),
                "context": sparse.encode_document(context_form(change)),
            },
            payload=memory_payload(change),
        )
        # The memory comes last: where it is written, so are its passages.
        points += [*_passages(own, made.further or ()), own]
    told = {Name(change.memory.tenant, name) for change in live.values() for name in names_given(change.memory)}
    before = {Name(one.tenant, name) for key, one in held.items() if key in latest for name in one.names}
    return WriteBatch(
        points=points,
        gone=[key for key in latest if key not in live],
        forgotten=sorted(before - told),
        replaced=[key for key in latest if key not in live or vectors[key].further is not None],
    )


def _passages(own: IndexPoint, further: Sequence[Embedded]) -> list[IndexPoint]:
    return [
        IndexPoint(
            key=passage_key(own.key, number),
            dense=one.dense,
            tokens=one.tokens if own.tokens is not None else None,
            sparse={},
            payload=passage_payload(own.key, own.payload),
        )
        for number, one in enumerate(further, start=1)
    ]


async def _vectors(
    live: Mapping[int, Change], held: Mapping[int, HeldPoint], embedder: VectorPrefetch, with_tokens: bool
) -> dict[int, PointVectors]:
    vectors = _known(live, held, with_tokens)
    new = [key for key in live if key not in vectors]
    texts = [dense_forms(live[key].memory) for key in new]
    made = iter(await embedder.vectors([text for of_one in texts for text in of_one]) if new else ())
    for key, of_one in zip(new, texts, strict=True):
        first, *further = islice(made, len(of_one))
        vectors[key] = PointVectors(first.dense, first.tokens if with_tokens else None, further)
    return vectors


async def _vectors_of_names(
    called: Mapping[Name, MergedName], names: Mapping[int, HeldName], embedder: VectorPrefetch
) -> dict[str, Sequence[float]]:
    """By what the entities are called; a name may be that of an entity in each of several tenants."""
    vectors = {one.label: one.vector for one in names.values()}
    if labels := _new_labels(called, names):
        made = await embedder.of_names(labels)
        vectors |= {label: vector.tolist() for label, vector in zip(labels, made, strict=True)}
    return vectors


def _new_labels(called: Mapping[Name, MergedName], names: Mapping[int, HeldName]) -> list[str]:
    known = {one.label for one in names.values()}
    return list(dict.fromkeys(one.label for one in called.values() if one.label not in known))


def _known(live: Mapping[int, Change], held: Mapping[int, HeldPoint], with_tokens: bool) -> dict[int, PointVectors]:
    """The vectors that the index holds of what has not been changed since."""
    known: dict[int, PointVectors] = {}
    for key, change in live.items():
        one = held.get(key)
        if one is None or one.dense is None or one.version != change.memory.version:
            continue
        if one.passages != (spans := flat(spans_of(change.memory))):
            continue  # written before there were passages, or cut otherwise
        if spans and one.told != told_times_of(told_payload(change.memory.times)):
            continue  # extraction makes no version, and each passage has the times as well
        if one.tokens is not None or not with_tokens:
            known[key] = PointVectors(one.dense, one.tokens if with_tokens else None)
    return known


def _is_held(one: MergedName, held: HeldName | None) -> bool:
    return held is not None and (held.label, held.aliases) == (one.label, one.aliases)


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


def _entities(
    called: Mapping[Name, MergedName], vectors: Mapping[str, Sequence[float]], sparse: SparseEncoder
) -> list[IndexPoint]:
    """One point for every one of these entities, found by the words of its name and of those merged into it."""
    return [
        IndexPoint(
            key=name.key,
            dense=None,
            # Each name by itself: one of many names is found as well as one of one.
            sparse={"entity": union([sparse.encode_document(each) for each in (one.label, *one.aliases)])},
            payload=entity_payload(name, one),
            name=vectors[one.label],
        )
        for name, one in called.items()
    ]
