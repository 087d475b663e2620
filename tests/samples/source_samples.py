"""Memories, requests and an embedder for the sources, made in one line each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from orion_recall.contracts import MemoryV1
from orion_recall.interfaces import TextIndex
from orion_recall.memory.record.compose import compose
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.vector_lexical import LexicalSource, VectorSource
from orion_recall.text.normal import content_words, memory_key, text_hash, words
from orion_recall.values import Change, Hit, Memory, Neighbour, Question, Scope, SearchRequest

NOW = 1_772_400_000.0
TENANT = "acme"


class HashingEmbedder:
    """A bag of hashed words as a unit vector: near when words are shared. `name` and `weights` make it another."""

    def __init__(self, name: str = "hashing", *, dimension: int = 64, weights: str = "a" * 64) -> None:
        self.name, self.dimension, self.weights_sha256 = name, dimension, weights

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        vector = np.zeros(self.dimension, dtype=np.float32)
        for word in words(text):
            vector[
                int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big") % self.dimension
            ] += 1
        length = float(np.linalg.norm(vector))
        return vector / np.float32(length or 1.0)

    async def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.array([await self.embed_query(text) for text in texts], dtype=np.float32)


class TokenEmbedder(HashingEmbedder):
    """One that gives vectors of tokens as well, a unit vector of its own for each word; keeps what it was asked."""

    token_space, token_width = "hashing-32", 32

    def __init__(self, name: str = "hashing", **fields: Any) -> None:
        super().__init__(name, **fields)
        self.asked: list[str] = []

    async def query_tokens(self, text: str) -> npt.NDArray[np.float32]:
        """Each word weighs what it has in letters."""
        spoken = words(text)
        letters = np.array([len(word) for word in spoken], dtype=np.float32)
        weighed = self._words(spoken) * (letters / max(1.0, float(letters.sum())))[:, None]
        return weighed.astype(np.float32)

    async def documents_with_tokens(
        self, texts: Sequence[str]
    ) -> tuple[npt.NDArray[np.float32], list[npt.NDArray[np.float32]]]:
        self.asked += texts
        return await self.embed_documents(texts), [self._words(words(text)) for text in texts]

    def _words(self, spoken: Sequence[str]) -> npt.NDArray[np.float32]:
        seeds = [int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big") for word in spoken]
        rows = [np.random.default_rng(seed).normal(size=self.token_width) for seed in seeds]
        units = [row / np.linalg.norm(row) for row in rows]
        return np.array(units, dtype=np.float32).reshape(len(units), self.token_width)


_composed: dict[str, Memory] = {}


def memory(name: str, text: str, *, tenant: str = TENANT, **fields: Any) -> Memory:
    """A memory as the record composes it; of equal ones each process composes one."""
    told = repr((name, text, tenant, fields))
    if told not in _composed:
        _composed[told] = compose(MemoryV1.model_validate({"id": name, "text": text, **fields}), tenant)
    return _composed[told]


def id_of(value: object) -> str:
    """For `ids` of tests: a set in one order, whatever the process that collects them has read it from."""
    return str(sorted(cast("set[str]", value))) if isinstance(value, set) else str(value)


def changes(*memories: Memory, start: int = 1) -> list[Change]:
    """The memories as steps of the outbox, the turns of a session side by side in the order given."""
    made: list[Change] = []
    for place, one in enumerate(memories):
        before = [other for other in memories[:place] if _same_session(one, other)]
        after = [other for other in memories[place + 1 :] if _same_session(one, other)]
        made.append(
            Change(
                position=start + place,
                memory=one,
                previous=beside(before[-1]) if before else None,
                following=beside(after[0]) if after else None,
            )
        )
    return made


def _same_session(one: Memory, other: Memory) -> bool:
    return one.session_id is not None and (one.tenant, one.session_id) == (other.tenant, other.session_id)


def beside(one: Memory) -> Neighbour:
    return Neighbour(id=one.id, text=one.text, speaker=one.speaker)


def key(name: str, tenant: str = TENANT) -> int:
    return memory_key(tenant, name)


def names(hits: Iterable[Hit], memories: Iterable[Memory]) -> list[str]:
    """The ids of what was hit, in order."""
    by_key = {memory_key(one.tenant, one.id): one.id for one in memories}
    return [by_key[hit.key] for hit in hits]


def request(text: str, *, scope: Scope | None = None, limit: int = 10, **fields: Any) -> SearchRequest:
    question = Question(
        text=text,
        dense_text=text,
        keyword_text=text,
        terms=frozenset(content_words(text)),
        now=NOW,
        text_hash=text_hash(text),
    )
    return SearchRequest(question=question, scope=scope or Scope(tenant=TENANT), limit=limit, **fields)


CRANE = memory(
    "crane", "The harbour crane needs a new gearbox.", speaker="Bo", session_id="s1", kind="observation",
    occurred_at=NOW - 100, tags=["harbour"], entities=["Harbour Crane"], user_id="u1",
    agent_id="scout", run_id="r1",
)  # fmt: skip
ORDER = memory(
    "order", "I ordered it at Fjord Labs.", speaker="Ana", session_id="s1", kind="experience",
    occurred_at=NOW - 50, tags=["order"], entities=["Fjord Labs"],
)  # fmt: skip
SHED = memory(
    "shed", "The shed is painted green.", session_id="s2", speaker="Bo", user_id="u1", agent_id="scout", run_id="r2"
)
OURS = (CRANE, ORDER, SHED)
THEIRS = memory(
    "crane", "The harbour crane gearbox is a secret.", tenant="other", speaker="Eve", entities=["Secret Crane"]
)  # fmt: skip
ALL = (*OURS, THEIRS)


async def dense(index: TextIndex, text: str, scope: Scope | None = None, **fields: Any) -> list[str]:
    """The ids of what the vector arm finds."""
    arm = VectorSource(index, HashingEmbedder())
    return names(await arm.search(request(text, scope=scope, min_score=-1.0, **fields)), ALL)


async def lexical(
    index: TextIndex, text: str, scope: Scope | None = None, *, memories: Iterable[Memory] = (), **fields: Any
) -> list[str]:
    """The ids of what the lexical arm finds; `memories` are those that are not among the samples."""
    arm = LexicalSource(index, SparseEncoder())
    return names(await arm.search(request(text, scope=scope, **fields)), [*ALL, *memories])
