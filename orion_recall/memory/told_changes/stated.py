"""What a text states: its sentences without questions, wishes, advice and what was long ago, each read once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from orion_recall.memory.told_changes.clauses import phrases_in, without_absences, without_long_ago
from orion_recall.memory.told_changes.posts import without_temporary_handovers
from orion_recall.memory.told_changes.wishes import is_advice, is_condition, without_wishes
from orion_recall.memory.told_changes.word_lists import Heard
from orion_recall.text.normal import is_question, words


class Stated(NamedTuple):
    """Statements in their order: their folded texts, the words of each, and its phrases of change by kind."""

    texts: list[str]
    words: list[list[str]]
    phrases: list[Mapping[Heard, str]]


def stated_in(sentences: Iterable[str]) -> Stated:
    """What the sentences of a text state; what states nothing is empty, so that it stays between the others."""
    told = (one.casefold() for one in sentences if not is_question(one))
    texts = without_long_ago("" if is_advice(one) or is_condition(one) else without_wishes(one) for one in told)
    said = [words(without_absences(one)) for one in texts]
    return Stated(texts, said, [without_temporary_handovers(phrases_in(one), one) for one in said])
