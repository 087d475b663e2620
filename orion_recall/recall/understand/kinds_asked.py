"""Kinds of things that a question asks for: chatter, or all that a calendar has. English only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from orion_recall.values import QuestionTime
from orion_recall.when.vocabulary import PLAN_NOUNS

OF_CHANGES: Final = frozenset("change changes changed changing different differently".split())
_ABOUT_CHATTER: Final = frozenset(
    """joke jokes joked joking funny laugh laughed laughing chatter banter greet greets greeted greeting greetings
    hello goodbye thank thanks thanked congratulate congratulated congratulations weather rain rained raining snow
    snowed snowing sunny windy storm degrees""".split()
)
_ALL: Final = frozenset("what's anything everything something else all list show".split())
_ASKING: Final = frozenset(("what", "which"))
# "What is on", not "what music is on".
_AFTER_WHAT: Final = frozenset(
    """is are am was do does did have has had will would shall should can could must may might comes come happens
    else all i we you they i've we've""".split()
)
# Of which a calendar has all: "which meetings are next week?".
_ENTRIES: Final = PLAN_NOUNS | frozenset(
    """event events meeting meetings task tasks visit visits booking bookings commitment commitments thing things
    stuff dates""".split()
)


def asks_for_chatter(words: Collection[str]) -> bool:
    """Whether the question's words, folded, are about greetings, thanks, jokes or the weather.

    For these chatter is an answer.
    """
    return not _ABOUT_CHATTER.isdisjoint(words)


def asks_for_calendar(words: Sequence[str], time: QuestionTime) -> bool:
    """Whether the question, in folded words, wants all of what is to come in the time that it names.

    Such as "what do I have on tomorrow?", not "what music do we play in April?".
    """
    if time.of != "told" or not time.intervals or not time.ahead or time.asks_when:
        return False
    if time.alone or not _ALL.isdisjoint(words):
        return True
    return any(
        word in _ASKING and (after in _AFTER_WHAT or not _ENTRIES.isdisjoint((after, then)))
        for word, after, then in zip(words, (*words[1:], ""), (*words[2:], "", ""), strict=False)
    )
