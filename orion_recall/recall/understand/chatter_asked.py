"""Questions for chatter: those about greetings, jokes or the weather, for which chatter is an answer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_ABOUT_CHATTER: Final = frozenset(
    """joke jokes joked joking funny laugh laughed laughing chatter banter greet greets greeted greeting greetings
    hello goodbye thank thanks thanked congratulate congratulated congratulations weather rain rained raining snow
    snowed snowing sunny windy storm degrees""".split()
)


def asks_for_chatter(words: Collection[str]) -> bool:
    """Whether the question's words, folded, are about greetings, thanks, jokes or the weather."""
    return not _ABOUT_CHATTER.isdisjoint(words)
