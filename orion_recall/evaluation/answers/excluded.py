"""The memories that are left out of a query's search, so that nothing answers it any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orion_recall.evaluation.dataset import JudgedQuery

_BESIDE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """Finds what to leave out; `ids` are those of every conversation's memories, in their order.

    Of a conversation that is not in it nothing is left out.
    """

    ids: Mapping[str, Sequence[str]]

    def of(self, query: JudgedQuery) -> tuple[str, ...]:
        """The query's evidence, what is related to it, and two memories before and after each of them.

        People repeat in the next turns what they have just said.
        """
        order = self.ids.get(query.conversation, ())
        answering = query.evidence | query.related
        places = [place for place, memory_id in enumerate(order) if memory_id in answering]
        near = {other for place in places for other in range(place - _BESIDE, place + _BESIDE + 1)}
        return tuple(order[place] for place in sorted(near) if 0 <= place < len(order))
