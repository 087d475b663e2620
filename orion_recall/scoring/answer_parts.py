"""Values of the score parts of answer types: whether a text has such a name or number as the question asks for."""

from __future__ import annotations

from orion_recall.scoring.part_values import READ_CHARS, Column, PartInputs
from orion_recall.text.answers import gives_name, gives_number
from orion_recall.text.places import gives_home, gives_place
from orion_recall.values import AnswerType


def name_given(given: PartInputs) -> Column | None:
    """1 for texts with a name that is not in the question, where it asks for a name; with a place where for one."""
    wanted = given.facts.answer_type
    if not wanted.name or given.is_with_assistant:
        return None
    texts = [memory.best_text[:READ_CHARS] for memory in given.memories]
    return [1.0 if gives_name(text, wanted.known) and _gives_place(text, wanted) else 0.0 for text in texts]


def _gives_place(text: str, wanted: AnswerType) -> bool:
    """Whether the text names such a place as is asked for; any text does where none is."""
    if wanted.home:
        return gives_home(text)
    return not wanted.place or gives_place(text)


def number_given(given: PartInputs) -> Column | None:
    """1 for texts with a number, where the question asks for one."""
    if not given.facts.answer_type.number or given.is_with_assistant:
        return None
    return [1.0 if gives_number(memory.best_text[:READ_CHARS]) else 0.0 for memory in given.memories]
