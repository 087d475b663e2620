"""What an index says of itself, kept with it: who made it, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orion_recall.models.embedder import Embedder
from orion_recall.models.token_space import token_space_of

# Of what is in the points: changed whenever an index of the old kind must be built again.
FORMAT = 5

NO_TOKENS = "the embedder gives no vectors of tokens: ORION_EMBEDDER=onnx with ORION_TOKEN_VECTORS=true does"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMetadata:
    """The embedding model that made an index, and the outbox position that it holds.

    `made` tells an index on a server from another one that was made in its place; `record` is the mark of the
    record that it is of, "" while it has none. `tokens` names the space of the tokens' vectors that every memory in
    it has, "" when it has none of them.
    """

    format: int
    model: str
    dimension: int
    weights_sha256: str
    position: int
    made: str = ""
    record: str = ""
    tokens: str = ""

    @classmethod
    def of(cls, embedder: Embedder) -> IndexMetadata:
        """The metadata of an index that is still empty."""
        return cls(
            format=FORMAT,
            model=embedder.name,
            dimension=embedder.dimension,
            weights_sha256=embedder.weights_sha256,
            position=0,
            tokens=token_space_of(embedder),
        )

    def at(self, position: int) -> IndexMetadata:
        """The same index, at another position."""
        return replace(self, position=position)

    def written_by(self, mine: IndexMetadata) -> IndexMetadata:
        """The same index once a process with the metadata `mine` has written: its tokens are those that both have."""
        return self if self.tokens == mine.tokens else replace(self, tokens="")

    def without_tokens(self, mine: IndexMetadata) -> str | None:
        """Why a process with the metadata `mine` can compare no tokens in an index with this metadata; None when it can."""
        if not mine.tokens:
            return NO_TOKENS
        if self.tokens == mine.tokens:
            return None
        return (
            "the index has no vectors of tokens, or of another kind: `orion-recall memory reembed` makes them, on "
            "a Qdrant server under a new ORION_QDRANT_COLLECTION"
        )

    def misfit(self, mine: IndexMetadata) -> str | None:
        """Why an index with this metadata cannot be used by a process with the metadata `mine`; None when it can."""
        if (self.model, self.dimension, self.weights_sha256) != (mine.model, mine.dimension, mine.weights_sha256):
            return (
                f"was made with {self.model} ({self.dimension} floats, weights {self.weights_sha256[:12]}), "
                f"queries are embedded with {mine.model} ({mine.dimension} floats, weights "
                f"{mine.weights_sha256[:12]}): configure that model, or"
            )
        return f"has format {self.format}:" if self.format != mine.format else None
