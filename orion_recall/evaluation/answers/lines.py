"""The lines of a run that say whether anything answered: as `eval run` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from orion_recall.errors import EvaluationError
from orion_recall.evaluation.dataset import read_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLine:
    """One query of a run: whether anything answers it, and what the recall made of it.

    `probability` is None where it could not be told, and then `signals` is empty.
    """

    query_id: str
    conversation: str
    is_answerable: bool
    probability: float | None
    signals: Mapping[str, float]
    is_empty: bool

    @property
    def told(self) -> float:
        """The probability; where it could not be told, 1 with a bundle and 0 without one, as the caller sees it."""
        if self.probability is not None:
            return self.probability
        return 0.0 if self.is_empty else 1.0


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    query_id: str = Field(min_length=1)
    conversation_id: str = Field(min_length=1)
    selected: tuple[str, ...]
    answerable: bool | None
    answer_probability: float | None
    answer_signals: dict[str, float]


def read_answer_lines(path: Path) -> Sequence[AnswerLine]:
    """The lines of queries that are known to be answerable or not. EvaluationError when there is none."""
    lines = [
        AnswerLine(
            query_id=line.query_id,
            conversation=line.conversation_id,
            is_answerable=line.answerable,
            probability=line.answer_probability,
            signals=line.answer_signals,
            is_empty=not line.selected,
        )
        for line in read_lines(_Line, path)
        if line.answerable is not None
    ]
    if not lines:
        raise EvaluationError(f"{path}: no query of it is known to be answerable or not")
    return lines
