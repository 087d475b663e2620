"""Metadata of an index, kept with it: the embedding model, the format, the position in the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from orion_recall.errors import AnotherRecordsCopy
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import token_space_of
from orion_recall.text.keyword_weights import SHIPPED_NAME


def refuse_another(what: str, found: str | None, expected: str | None, *, advice: str) -> None:
    """AnotherRecordsCopy when both identities are known and differ."""
    if found is not None and expected is not None and found != expected:
        raise AnotherRecordsCopy(
            f"{what} belongs to another record (the one made at {found}; this one was made at {expected}): {advice}"
        )


# The format of points: raised whenever an older index must be rebuilt.
FORMAT = 10

NO_TOKENS = "the embedder gives no vectors of tokens: ORION_EMBEDDER=onnx with ORION_TOKEN_VECTORS=true does"


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """The embedding model that made an index, and the outbox position that it holds.

    `made` tells a collection on a server from a later one of the same name. `record` is the identity of its
    database, "" while it has none. `tokens` names the space of the token vectors that every memory in it has, ""
    without such. `keywords` names the weights of its keywords, "" the shipped ones.
    """

    format: int
    model: str
    dimension: int
    weights_sha256: str
    position: int
    made: str = ""
    record: str = ""
    tokens: str = ""
    keywords: str = ""

    @classmethod
    def of(cls, embedder: Embedder, sparse: SparseEncoder) -> IndexMetadata:
        model, weights, tokens = embedder.name, embedder.weights_sha256, token_space_of(embedder)
        return cls(FORMAT, model, embedder.dimension, weights, 0, tokens=tokens, keywords=sparse.weights.name)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> IndexMetadata:
        """What was stored; TypeError or ValueError when it is none."""
        return cls(**stored).at(int(stored["position"]))

    def at(self, position: int) -> IndexMetadata:
        """The same index, at another position."""
        return replace(self, position=position)

    def written_by(self, mine: IndexMetadata) -> IndexMetadata:
        """The metadata after a write by a process with `mine`: token vectors stay only if both have them."""
        return self if self.tokens == mine.tokens else replace(self, tokens="")

    def without_tokens(self, mine: IndexMetadata) -> str | None:
        """Why a process with `mine` cannot compare token vectors in this index; None when it can."""
        if not mine.tokens:
            return NO_TOKENS
        if self.tokens == mine.tokens:
            return None
        return (
            "the index has no vectors of tokens, or of another kind: `orion-recall memory rebuild index` makes "
            "them, on a Qdrant server under a new ORION_QDRANT_COLLECTION"
        )

    def misfit(self, mine: IndexMetadata) -> str | None:
        """Why a process with `mine` cannot use this index; None when it can."""
        if (self.model, self.dimension, self.weights_sha256) != (mine.model, mine.dimension, mine.weights_sha256):
            return (
                f"was made with {self.model} ({self.dimension} floats, weights {self.weights_sha256[:12]}), "
                f"queries are embedded with {mine.model} ({mine.dimension} floats, weights "
                f"{mine.weights_sha256[:12]}): configure that model, or"
            )
        if self.keywords != mine.keywords:
            return (
                f"was made with the keyword weights {self.keywords or SHIPPED_NAME}, those of this process are "
                f"{mine.keywords or SHIPPED_NAME}: set them by ORION_KEYWORD_WEIGHTS, or"
            )
        return f"has format {self.format}:" if self.format != mine.format else None
