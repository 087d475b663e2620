"""Questions for a calendar: those that want all that is told of a time, such as "what do I have on tomorrow?"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from orion_recall.values import QuestionTime

_ALL: Final = frozenset("what what's which anything everything something else all list show".split())


def asks_for_calendar(words: Sequence[str], time: QuestionTime) -> bool:
    """Whether the question, in folded words, wants all of what is to come in the time that it names."""
    if time.of != "told" or not time.intervals or not time.ahead or time.asks_when:
        return False
    return time.alone or not _ALL.isdisjoint(words)
