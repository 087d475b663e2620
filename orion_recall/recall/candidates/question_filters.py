"""Question filters: which candidates cannot answer this question, whatever their score.

What somebody else said, what is of another time, or of other people: a list of those filters, in their order, that
the question and the profile call for. Who may see a memory is decided before (`filters`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from orion_recall.profile import Profile
from orion_recall.recall.candidates.filters import in_asked_time
from orion_recall.recall.candidates.said_by import SaidByFilter
from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.search.period import in_period, is_of_period
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate
from orion_recall.values import MemoryView

Pairs = Sequence[tuple[Candidate, MemoryView]]


class QuestionFilter(Protocol):
    """Keeps candidates that can answer; `dropped` notes the others, with the reason."""

    def __call__(self, kept: Pairs, /, *, dropped: Dropped) -> Pairs: ...


def question_filters(
    understood: Understanding,
    profile: Profile,
    *,
    memories: Mapping[int, MemoryView],
    similarities: Mapping[int, float],
    closeness: Mapping[int, float],
) -> list[QuestionFilter]:
    """The filters of a question.

    `memories` are those read for this recall, `similarities` cosines and `closeness` late interaction, by key.
    """
    filters: list[QuestionFilter] = []
    if (said := understood.said_by) is not None and said.is_strict:
        of = SaidByFilter(
            said=said,
            memories=memories,
            similarities=similarities,
            closeness=closeness,
            language=understood.language,
        )
        filters.append(of.kept)
    if profile.time.filter:
        filters.append(partial(in_asked_time, question=understood.question))
    if is_of_period(understood):
        filters.append(partial(in_period, understood=understood))
    return filters
