"""Entity search by vectors of names: the entities nearest to a text, even without a common word."""

from __future__ import annotations

from collections.abc import Sequence

from orion_recall.errors import ModelError, SourceError
from orion_recall.interfaces import NameIndex
from orion_recall.models.embedder import Embedder


class NamesByMeaning:
    """Compares one embedding of the text with the vectors of names in the index."""

    def __init__(self, index: NameIndex, embedder: Embedder) -> None:
        self._index, self._embedder = index, embedder

    async def entities_like(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        """(label, cosine), best first. SourceError when index or model does not answer."""
        try:
            vector = await self._embedder.embed_query(text)
        except ModelError as error:
            raise SourceError(f"names cannot be compared by meaning: {error}") from error
        return await self._index.names_near(vector.tolist(), tenant, limit)
