"""Points of the index: their keys, vectors and payload, and memories read back from them, for every engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from orion_recall.index.texts import OF, flat, spans_of
from orion_recall.models.batching import Vector
from orion_recall.models.sparse import SparseTerms
from orion_recall.text.names import is_assistant, title_names
from orion_recall.text.normal import is_question, memory_key, number_of, speaks_of_itself
from orion_recall.text.small_talk import is_chatter
from orion_recall.values import Change, Memory, MemoryView, MergedName, SuccessionLink, TimeMention, ToldTime

TOLD: Final = "told"
"""The payload's list of told times: objects with `since` and `until`, and `weekday` if it comes every week."""
DAY_S: Final = 86_400


def told_payload(times: Iterable[TimeMention]) -> list[dict[str, float]]:
    """The told times of a memory as its point has them."""
    return [
        {"since": one.since, "until": one.until, **({"weekday": weekday(one.since)} if one.weekly else {})}
        for one in times
    ]


def told_times_of(listed: Iterable[Mapping[str, Any]]) -> tuple[ToldTime, ...]:
    """The told times of a point, from what its payload lists."""
    return tuple([ToldTime(one["since"], one["until"], "weekday" in one) for one in listed])


def weekday(moment: float) -> int:
    return (int(moment // DAY_S) + 3) % 7


KEYWORD_FIELDS = ("tenant", "session", "user", "agent", "run", "kind", "tags", "names", "speaker", "titles")
DENSE_VECTORS = ("dense", "name")
SPARSE_VECTORS = ("text", "context", "entity")
NUMBER_FIELDS = (OF, "told[].weekday")
FLOAT_FIELDS = ("ts", "told[].since", "told[].until")
TOKENS = "tokens"
"""The name of the vectors of a memory's tokens."""

HalfTokens = npt.NDArray[np.float16]
"""Vectors of a text's tokens, float16, shape (tokens, width)."""

AS_HELD: Final = "as held"
"""Instead of token vectors: those that the index holds of the point stay as they are."""

GivenTokens = list[list[float]] | HalfTokens | Literal["as held"] | None


class IndexPoint(NamedTuple):
    """One point: a memory or a passage of it with a unit vector `dense`, or an entity with one of its `name`.

    `sparse` are terms by the vector's name. `tokens` are the vectors of a memory's tokens, where the index holds
    such, or `AS_HELD`.
    """

    key: int
    dense: Sequence[float] | Vector | None
    sparse: Mapping[str, SparseTerms]
    payload: dict[str, Any]
    tokens: GivenTokens = None
    name: Sequence[float] | None = None

    @property
    def unit_vectors(self) -> dict[str, list[float]]:
        """Those of `DENSE_VECTORS` that it has, by name, as engines take them."""
        named = (("dense", self.dense), ("name", self.name))
        return {name: np.asarray(vector).tolist() for name, vector in named if vector is not None}


class HeldPoint(NamedTuple):
    """A memory's point in an index: version, the folded names it gives, and its vectors if they were read."""

    tenant: str
    version: int
    names: frozenset[str]
    dense: Sequence[float] | None
    tokens: list[list[float]] | Literal["as held"] | None = None
    passages: tuple[int, ...] = ()
    speaker: str | None = None
    told: tuple[ToldTime, ...] = ()
    restated: str | None = None


class HeldName(NamedTuple):
    """An entity's point in an index: its name, the vector of that, and the names that were merged into it."""

    label: str
    vector: Sequence[float]
    aliases: tuple[str, ...] = ()


class Name(NamedTuple):
    """An entity of a tenant, folded."""

    tenant: str
    folded: str

    @property
    def key(self) -> int:
        return number_of(f"entity\x1f{self.tenant}", self.folded)


def entity_payload(name: Name, one: MergedName) -> dict[str, Any]:
    aliases = {"aliases": list(one.aliases)} if one.aliases else {}
    return {"tenant": name.tenant, "label": one.label} | aliases


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
        passages=tuple(payload.get("passages", ())),
        speaker=payload.get("speaker"),
        told=told_times_of(payload.get(TOLD) or ()),
        restated=payload.get("restated"),
    )


def memory_view(payload: Mapping[str, Any]) -> MemoryView:
    """A point's payload as a memory."""
    of = payload.get
    kind: Any = of("kind")
    guessed: str | None = None
    if kind.__class__ is list:
        kind, guessed = kind
    # In the order of the fields, without their names: a recall reads a hundred, and this takes half of the time.
    return MemoryView(
        payload["id"],
        payload["text"],
        payload["hash"],
        kind,
        of("title"),
        of("speaker"),
        of("session"),
        of("user"),
        of("ts"),
        of("uri"),
        of("source"),
        tuple(of("tags", ())),
        tuple(of("entities", ())),
        tuple(of("beside", ())),
        of("until"),
        of("after_question", False),
        of("first_person", False),
        of("chatter", False),
        told_times_of(payload[TOLD]) if TOLD in payload else (),
        of("assistant", False),
        tuple(map(_link, payload["succeeds"])) if "succeeds" in payload else (),
        tuple(map(_link, payload["succeeded_by"])) if "succeeded_by" in payload else (),
        tuple(payload["passages"]) if "passages" in payload else (),
        0,
        of("confidence"),
        of("agent"),
        of("run"),
        guessed,
    )


def memory_payload(change: Change) -> dict[str, Any]:
    """The payload of a memory's point; fields without a value are left out."""
    memory = change.memory
    beside = [
        memory_key(memory.tenant, turn.id) for turn in (change.previous, change.following) if turn is not None
    ]
    of_assistant = is_assistant(memory.speaker, agent_id=memory.agent_id, role=memory.metadata.get("role"))
    fields: dict[str, Any] = {
        "tenant": memory.tenant,
        "id": memory.id,
        "text": memory.text,
        "hash": memory.text_hash,
        "kind": memory.kind if memory.guessed_kind is None else [memory.kind, memory.guessed_kind],
        "confidence": memory.confidence,
        "title": memory.title,
        "speaker": memory.speaker,
        "session": memory.session_id,
        "user": memory.user_id,
        "agent": memory.agent_id,
        "run": memory.run_id,
        "ts": memory.ts,
        "until": memory.occurred_until if memory.occurred_at is not None else None,
        "uri": memory.uri,
        "source": memory.source,
        "tags": list(memory.tags) or None,
        "entities": list(memory.entities) or None,
        "names": sorted(names_given(memory)) or None,
        "titles": list(title_names(memory.title)) or None if memory.title else None,
        "version": memory.version,
        "beside": beside or None,
        "after_question": (change.previous is not None and is_question(change.previous.text)) or None,
        "first_person": speaks_of_itself(memory.text) or None,
        TOLD: told_payload(memory.times) or None,
        "chatter": is_chatter(memory.text) or None,
        "passages": list(flat(spans_of(memory))) or None,
        "restated": memory.restated,
        "assistant": of_assistant or None,
        "succeeds": [list(link) for link in change.succeeds] or None,
        "succeeded_by": [list(link) for link in change.succeeded_by] or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def names_given(memory: Memory) -> frozenset[str]:
    """The names of entities in a memory, case folded."""
    return frozenset(label.casefold() for label in memory.entities)


def _link(kept: Sequence[Any]) -> SuccessionLink:
    key, name, at, reason, probability, evidence = kept
    return SuccessionLink(key, name, at, reason, probability, tuple(evidence))
