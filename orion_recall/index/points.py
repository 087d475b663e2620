"""Memories as points of an index and back, whichever engine holds them: keys, vectors, payload."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from orion_recall.foreground import FOREGROUND
from orion_recall.index.text_forms import context_form, dense_form, event_time, keyword_form
from orion_recall.index.vector_prefetch import GivesVectors, HalfTokens
from orion_recall.models.batching import Vector
from orion_recall.models.sparse import SparseEncoder, SparseTerms, union
from orion_recall.text.normal import is_question, memory_key, number_of, speaks_of_itself
from orion_recall.text.titles import title_names
from orion_recall.values import Change, Memory, MemoryView, MergedName

KEYWORD_FIELDS = ("tenant", "session", "user", "kind", "tags", "names", "speaker", "titles")
DENSE_VECTORS = ("dense", "name")
SPARSE_VECTORS = ("text", "context", "entity")
TOKENS = "tokens"
"""The name of the vectors of a memory's tokens."""

_ENTITY = "entity\x1f"
# Some five milliseconds of them.
_AT_A_TIME = 8


class IndexPoint(NamedTuple):
    """One point: a memory with a unit vector `dense`, or an entity with one of its `name`.

    `sparse` are terms by the vector's name. `tokens` are the vectors of a memory's tokens, where the index holds
    such.
    """

    key: int
    dense: Sequence[float] | None
    sparse: Mapping[str, SparseTerms]
    payload: dict[str, Any]
    tokens: list[list[float]] | None = None
    name: Sequence[float] | None = None

    @property
    def unit_vectors(self) -> dict[str, Sequence[float]]:
        """Those of `DENSE_VECTORS` that it has, by name."""
        named = (("dense", self.dense), ("name", self.name))
        return {name: vector for name, vector in named if vector is not None}


class HeldPoint(NamedTuple):
    """What an index holds of a memory: version, the folded names it gives, and its vectors if they were read."""

    tenant: str
    version: int
    names: frozenset[str]
    dense: Sequence[float] | None
    tokens: list[list[float]] | None = None


class HeldName(NamedTuple):
    """What an index holds of an entity: how it is called, and the vector of that."""

    label: str
    vector: Sequence[float]


class PointVectors(NamedTuple):
    """The vectors of a memory: as they were read, or as they were made."""

    dense: Sequence[float] | Vector
    tokens: list[list[float]] | HalfTokens | None


class Name(NamedTuple):
    """An entity of a tenant, folded."""

    tenant: str
    folded: str

    @property
    def key(self) -> int:
        """The key of its point."""
        return number_of(_ENTITY + self.tenant, self.folded)


class _Names(NamedTuple):
    """The entities named, and the vectors of what they are called."""

    called: Mapping[Name, MergedName]
    vectors: Mapping[str, Sequence[float]]


_NO_NAMES: Mapping[int, HeldName] = {}


class IndexStep(NamedTuple):
    """What a batch of changes does to an index.

    `points` are to be written, `gone` are keys to be taken out. `forgotten` are names that these memories gave and
    give no longer: one that no other memory gives is to go too. All of it can be done again.
    """

    points: list[IndexPoint]
    gone: list[int]
    forgotten: list[Name]


def keys_of(changes: Sequence[Change]) -> list[int]:
    """The keys of the memories that the changes are about, each once."""
    return list(dict.fromkeys(memory_key(change.memory.tenant, change.memory.id) for change in changes))


def name_keys_of(changes: Sequence[Change]) -> list[int]:
    """The keys of the entities that the changes' live memories name, each once."""
    return [name.key for name in _called(_live(_latest(changes)).values())]


async def index_step(
    changes: Sequence[Change],
    held: Mapping[int, HeldPoint],
    embedder: GivesVectors,
    sparse: SparseEncoder,
    *,
    names: Mapping[int, HeldName] = _NO_NAMES,
    with_tokens: bool = False,
) -> IndexStep:
    """What is to be done, given what the index holds of the changes' memories and of the names they give.

    A memory that says what it said when it was embedded is not embedded again: its neighbours have changed. Neither
    is a name that is there. `with_tokens`: the index holds the vectors of the memories' tokens.
    """
    latest = _latest(changes)
    live = _live(latest)
    vectors = await _vectors(live, held, embedder, with_tokens)
    called = _called(live.values())
    named = _Names(called, await _vectors_of_names(called, names, embedder))
    # The words of a page take tens of milliseconds: not on the loop, where recalls wait.
    return await asyncio.to_thread(_step, latest, held, vectors, named, sparse)


def texts_to_embed(
    changes: Sequence[Change], held: Mapping[int, HeldPoint], *, with_tokens: bool = False
) -> list[str]:
    """What `index_step` will have to embed, given what the index holds now."""
    live = _live(_latest(changes))
    known = _known(live, held, with_tokens)
    return [dense_form(change.memory) for key, change in live.items() if key not in known]


def names_to_embed(changes: Sequence[Change], names: Mapping[int, HeldName]) -> list[str]:
    """The names of entities that `index_step` will have to embed, given what the index holds now."""
    return _new_labels(_called(_live(_latest(changes)).values()), names)


def _latest(changes: Sequence[Change]) -> dict[int, Change]:
    return {memory_key(change.memory.tenant, change.memory.id): change for change in changes}


def _live(latest: Mapping[int, Change]) -> dict[int, Change]:
    return {key: change for key, change in latest.items() if change.memory.is_live}


def _step(
    latest: Mapping[int, Change],
    held: Mapping[int, HeldPoint],
    vectors: Mapping[int, PointVectors],
    names: _Names,
    sparse: SparseEncoder,
) -> IndexStep:
    live = _live(latest)
    points = [
        IndexPoint(
            key=key,
            dense=_listed(vectors[key].dense),
            tokens=_listed(vectors[key].tokens),
            sparse={
                "text": sparse.encode_document(keyword_form(change.memory)),
                "context": sparse.encode_document(context_form(change)),
            },
            payload=_payload(change),
        )
        for key, change in FOREGROUND.throttled(live.items(), _AT_A_TIME)
    ]
    told = {Name(change.memory.tenant, name) for change in live.values() for name in _names(change.memory)}
    before = {Name(one.tenant, name) for key, one in held.items() if key in latest for name in one.names}
    return IndexStep(
        points=[*points, *_entities(names, sparse)],
        gone=[key for key in latest if key not in live],
        forgotten=sorted(before - told),
    )


async def _vectors(
    live: Mapping[int, Change], held: Mapping[int, HeldPoint], embedder: GivesVectors, with_tokens: bool
) -> dict[int, PointVectors]:
    vectors = _known(live, held, with_tokens)
    new = [key for key in live if key not in vectors]
    made = await embedder.vectors([dense_form(live[key].memory) for key in new]) if new else ()
    for key, one in zip(new, made, strict=True):
        vectors[key] = PointVectors(one.dense, one.tokens if with_tokens else None)
    return vectors


def _listed(vectors: Any) -> Any:
    """As an engine takes them."""
    return vectors.tolist() if isinstance(vectors, np.ndarray) else vectors


async def _vectors_of_names(
    called: Mapping[Name, MergedName], names: Mapping[int, HeldName], embedder: GivesVectors
) -> dict[str, Sequence[float]]:
    """By what the entities are called; a name may be that of an entity in each of several tenants."""
    vectors = {one.label: one.vector for one in names.values()}
    if labels := _new_labels(called, names):
        made = await embedder.of_names(labels)
        vectors |= {label: vector.tolist() for label, vector in zip(labels, made, strict=True)}
    return vectors


def _new_labels(called: Mapping[Name, MergedName], names: Mapping[int, HeldName]) -> list[str]:
    """The labels whose vectors the index does not hold."""
    known = {one.label for one in names.values()}
    return list(dict.fromkeys(one.label for one in called.values() if one.label not in known))


def _known(live: Mapping[int, Change], held: Mapping[int, HeldPoint], with_tokens: bool) -> dict[int, PointVectors]:
    """The vectors that the index holds of what has not been changed since."""
    known: dict[int, PointVectors] = {}
    for key, change in live.items():
        one = held.get(key)
        if one is None or one.dense is None or one.version != change.memory.version:
            continue
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


def _entities(names: _Names, sparse: SparseEncoder) -> list[IndexPoint]:
    """One point for every entity named, found by the words of its name and of those merged into it."""
    return [
        IndexPoint(
            key=name.key,
            dense=None,
            # Each name by itself: one of many names is found as well as one of one.
            sparse={"entity": union([sparse.encode_document(each) for each in (one.label, *one.aliases)])},
            payload={"tenant": name.tenant, "label": one.label}
            | ({"aliases": list(one.aliases)} if one.aliases else {}),
            name=names.vectors[one.label],
        )
        for name, one in names.called.items()
    ]


def names_of(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """All names of an entity's point, the one that is shown first."""
    return (str(payload["label"]), *map(str, payload.get("aliases", ())))


def held_point(payload: Mapping[str, Any], vectors: Mapping[str, Any]) -> HeldPoint:
    """What the payload and the vectors of a memory's point say."""
    return HeldPoint(
        tenant=payload["tenant"],
        version=payload["version"],
        names=frozenset(payload.get("names", ())),
        dense=vectors.get("dense"),
        tokens=vectors.get(TOKENS),
    )


def held_name(payload: Mapping[str, Any], vectors: Mapping[str, Any]) -> HeldName | None:
    """What the payload and the vectors of an entity's point say; None without a vector of its name."""
    vector = vectors.get("name")
    return None if vector is None else HeldName(payload["label"], vector)


def memory_view(payload: Mapping[str, Any]) -> MemoryView:
    """A point's payload as a memory."""
    of = payload.get  # looked up once: a recall reads a few dozen
    return MemoryView(
        id=payload["id"],
        text=payload["text"],
        text_hash=payload["hash"],
        simhash=payload["simhash"],
        kind=of("kind"),
        title=of("title"),
        speaker=of("speaker"),
        session_id=of("session"),
        user_id=of("user"),
        ts=of("ts"),
        uri=of("uri"),
        source_ref=of("source"),
        tags=tuple(of("tags", ())),
        entities=tuple(of("entities", ())),
        beside=tuple(of("beside", ())),
        until=of("until"),
        after_question=of("after_question", False),
        first_person=of("first_person", False),
    )


def _payload(change: Change) -> dict[str, Any]:
    memory = change.memory
    fields: dict[str, Any] = {
        "tenant": memory.tenant,
        "id": memory.id,
        "text": memory.text,
        "hash": memory.text_hash,
        "simhash": memory.simhash,
        "kind": memory.kind,
        "title": memory.title,
        "speaker": memory.speaker,
        "session": memory.session_id,
        "user": memory.user_id,
        "ts": event_time(memory),
        "until": memory.occurred_until if memory.occurred_at is not None else None,
        "uri": memory.uri,
        "source": memory.source,
        "tags": list(memory.tags) or None,
        "entities": list(memory.entities) or None,
        "names": sorted(_names(memory)) or None,
        "titles": list(title_names(memory.title)) or None if memory.title else None,
        "version": memory.version,
        "beside": _beside(change) or None,
        "after_question": (change.previous is not None and is_question(change.previous.text)) or None,
        "first_person": speaks_of_itself(memory.text) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _names(memory: Memory) -> frozenset[str]:
    return frozenset(label.casefold() for label in memory.entities)


def _beside(change: Change) -> list[int]:
    turns = (change.previous, change.following)
    return [memory_key(change.memory.tenant, turn.id) for turn in turns if turn is not None]
