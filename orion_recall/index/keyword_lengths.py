"""Mean lengths of documents in a keyword index, by tenant: measured over all of a tenant's memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from orion_recall.index.text_forms import context_form, keyword_form
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.keyword_weights import KeywordWeights, MeanLengths
from orion_recall.text.normal import memory_key
from orion_recall.values import Change


@dataclass(slots=True)
class LengthsOfTenants:
    """Counts terms; a memory that comes again counts as it was last, and a deleted one not at all."""

    _sparse: SparseEncoder = field(default_factory=SparseEncoder)
    _counted: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict[str, dict[int, tuple[int, int]]])

    def add(self, changes: Iterable[Change]) -> None:
        """Counts the terms of the changes' memories, and of these with their neighbours."""
        for change in changes:
            tenant, key = change.memory.tenant, memory_key(change.memory.tenant, change.memory.id)
            counted = self._counted.setdefault(tenant, {})
            counted.pop(key, None)
            if change.memory.is_live:
                own, with_beside = keyword_form(change.memory), context_form(change)
                counted[key] = self._sparse.count_terms(own), self._sparse.count_terms(with_beside)

    def means(self) -> Mapping[str, MeanLengths]:
        """The mean lengths of every tenant with memories."""
        return {
            tenant: MeanLengths(
                sum(own for own, _ in counted.values()) / len(counted),
                sum(both for _, both in counted.values()) / len(counted),
            )
            for tenant, counted in sorted(self._counted.items())
            if counted
        }


def with_lengths(weights: KeywordWeights, changes: Iterable[Change]) -> KeywordWeights:
    """The weights with the mean lengths of the changes' memories, where they are to be the corpus' own."""
    if weights.length is not None:
        return weights
    lengths = LengthsOfTenants()
    lengths.add(changes)
    return replace(weights, of_tenants=lengths.means())
