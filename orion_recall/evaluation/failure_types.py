"""The types of a failed query: what lies between the question and the relevant memories that were missed.

semantic_gap     a missed memory shares no content word with the question (stemmed): "ML", "machine learning"
several_words    a missed memory shares some of the question's content words, and not all: "quantum computing"
pronoun          the question or a missed memory refers by a pronoun: "that thing we discussed", "she sold it"
time             the question names a time, or asks for one
other_session    a missed memory is of another session than the query, or without one than the best memory

A query may have several of them, or none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, get_args

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.models.sparse import SparseEncoder
from orion_recall.values import MemoryView, QuestionTime

FailureType = Literal["semantic_gap", "several_words", "pronoun", "time", "other_session"]
FAILURE_TYPES: tuple[FailureType, ...] = get_args(FailureType)

_PRONOUN: Final = re.compile(
    r"\b(?:he|him|his|she|hers?|they|them|theirs?|it|its|(?:this|that|these|those) (?:thing|one|stuff)s?"
    r"|er|ihn|ihm|ihnen|ihre[mnrs]?|es|das ding)\b",
    re.IGNORECASE,
)


class FailureTypes:
    """Tells the types of failed queries, by stems as the keyword index makes them."""

    def __init__(self) -> None:
        self._encoder = SparseEncoder()

    def of(
        self, query: JudgedQuery, missed: Sequence[MemoryView], *, best: MemoryView | None, time: QuestionTime
    ) -> tuple[FailureType, ...]:
        """The types of one query. `best` is the best ranked memory, `time` what the question says of times."""
        wanted = frozenset(self._encoder.encode_query(query.text).indices)
        shared = [len(wanted & frozenset(self._encoder.encode_document(one.text).indices)) for one in missed]
        session = query.session_id or (best.session_id if best is not None else None)
        holds: dict[FailureType, bool] = {
            "semantic_gap": any(count == 0 for count in shared),
            "several_words": any(0 < count < len(wanted) for count in shared),
            "pronoun": any(_PRONOUN.search(text) for text in (query.text, *(one.text for one in missed))),
            "time": bool(time.intervals) or time.asks_when,
            "other_session": session is not None and any(one.session_id != session for one in missed),
        }
        return tuple(name for name in FAILURE_TYPES if holds[name])
