"""Kinds of things that a question asks for: changes, chatter, or all that a calendar has. English only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from orion_recall.values import QuestionTime

OF_CHANGES: Final = frozenset("change changes changed changing different differently".split())
_ABOUT_CHATTER: Final = frozenset(
    """joke jokes joked joking funny laugh laughed laughing chatter banter greet greets greeted greeting greetings
    hello goodbye thank thanks thanked congratulate congratulated congratulations weather rain rained raining snow
    snowed snowing sunny windy storm degrees""".split()
)
_ALL: Final = frozenset("what what's which anything everything something else all list show".split())


def asks_for_changes(words: Collection[str]) -> bool:
    """Whether the question's words, folded, ask what is different; of what, they may say as well."""
    return not OF_CHANGES.isdisjoint(words)


def asks_for_chatter(words: Collection[str]) -> bool:
    """Whether the question's words, folded, are about greetings, thanks, jokes or the weather.

    For these chatter is an answer.
    """
    return not _ABOUT_CHATTER.isdisjoint(words)


def asks_for_calendar(words: Sequence[str], time: QuestionTime) -> bool:
    """Whether the question, in folded words, wants all of what is to come in the time that it names.

    Such as "what do I have on tomorrow?".
    """
    if time.of != "told" or not time.intervals or not time.ahead or time.asks_when:
        return False
    return time.alone or not _ALL.isdisjoint(words)
