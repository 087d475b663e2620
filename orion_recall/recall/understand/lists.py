"""Questions for a list: those that want all of a kind, or all of a calendar, rather than one answer. English only.

"Which invoices have I sent?"   "Who belongs to the band?"   "How many flats have I lived in?"   "List my tasks."
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from orion_recall.values import QuestionTime
from orion_recall.when.vocabulary import PLAN_NOUNS

_MOST_WORDS: Final = 40
"""Words that are read: a question has fewer, and what is longer is a text."""

# Plural without an s at its end.
_IRREGULAR: Final = "people|children|men|women|kids|folks|feet|teeth|mice|geese|media|data|criteria|staff"
# An s at its end, and no plural; or a plural of which one answer is meant.
_SINGULAR: Final = frozenset(
    """this is was has does its us bus gas yes plus bonus status virus campus focus menu process business address
    class glass boss access success progress pass dress press stress mess loss kiss illness fitness wellness news
    series species tennis basis analysis crisis physics mathematics maths politics economics always perhaps lens
    canvas atlas christmas texas paris towards besides less unless across steps instructions directions ingredients
    odds thanks means lens chess address days weeks months years hours minutes seconds
    metres meters kilometres kilometers miles litres liters gallons grams kilos inches degrees""".split()
)
_OWNERS: Final = "my|our|the|your|his|her|their|all|all my|all our|all the|all of my|all of our|all of the"
_GROUP: Final = (
    r"family|families|team|band|group|choir|crew|board|club|class|committee|household|department|circle|staff|squad"
    r"|company|project|flat|house|crowd|gang|chat|cast|guest list|list"
)
_HAVE: Final = r"(?:have|has|had|did|do|does|are|is|were|was|will|can|could|should|would|may|must|might|am|shall)"
_PERSON: Final = r"(?:i|we|you|they|he|she|people|everybody|everyone|[\w'’-]+)"

_LISTS: Final = re.compile(
    rf"""^(?:(?:please|so|and|ok|okay|now|can\ you|could\ you|would\ you)\ )*(?:
      (?:list|enumerate)\ .+
      |(?:give|show|tell|send|write|make|get|find)\ (?:me\ |us\ )?(?:a\ |the\ |an\ )?
        (?:full\ |complete\ |short\ )*list\b.*
      |(?:give|show|tell|name|find|get|recall)\ (?:me\ |us\ )?(?:about\ )?(?:all|every|each)\ .+
      |name\ (?:me\ )?(?:all|every|each|some|the)\ .+
      |(?:what|who)\ all\ .+
      |(?:what|which|who)\ (?:are|were)\ (?:all|all\ the|all\ of\ the|all\ my|all\ our)\ .+
      |who\ (?:all\ |else\ )?(?:belongs|belonged|belong)\ to\ .+
      |who\ (?:all\ |else\ )?(?:is|are|was|were)\ (?:all\ )?(?:in|on|part\ of|members\ of|a\ member\ of)
        \ (?:{_OWNERS})\ (?:\w+\ )?(?:{_GROUP})\b.*
      |what\ (?:else\ )?(?:have|has)\ (?!changed\b|happened\b|gone\b|been\b){_PERSON}
        \ (?:\w+ed|\w{{2,}}t|\w{{2,}}n|made|paid|said|read|had|sung|done|sold|told)\b.*
        \b(?:since|so\ far|up\ to\ now|until\ now|over\ the|in\ the\ last|in\ the\ past|this\ year|already|ever)\b.*
      |what\ (?:things|stuff|items|kinds?\ of\ things|else)\ .+
      |what\ (?:do|does)\ {_PERSON}\ (?:keep|own|collect|store|subscribe\ to|possess)\b.*
      |which\ (?:ones\ )?of\ (?:my|our|the|these|those|them|us|his|her|their)\b.*
    )$""",
    re.VERBOSE,
)
_ANYWHERE: Final = re.compile(
    r"\b(?:all (?:of )?(?:the|my|our|your|his|her|their|these|those)|all|each of|every one of)"
    r" ([\w'’-]+)(?: ([\w'’-]+))?"
)
_OF_A_KIND: Final = re.compile(
    rf"\b(?:which|what) (?:(?:[\w-]+) )??([\w-]+)"
    rf" (?:{_HAVE}|there|i|we|you|they|he|she|live|belong|come|work|own)\b"
)
_WHAT_ARE: Final = re.compile(
    rf"^(?:what|who|which) (?:are|were) (?:{_OWNERS})(?: [\w'’-]+)?? ([\w-]+)(?: (?!of\b).*| of .*)?$"
)
_HOW_MANY: Final = re.compile(r"\bhow many (?:[\w-]+ ){0,2}?([\w-]+)(?: |$)")
# One amount is meant: "How many tablets does the dog get?"
_AMOUNT: Final = re.compile(
    r"\bhow many .* (?:do|does) .* (?:get|take|need|eat|drink|smoke|use|pay|earn|charge|weigh|last|hold|fit)\b"
)
_PLURAL: Final = re.compile(rf"(?:{_IRREGULAR}|\w{{2,}}[^s\W\d]s)")
_SHORT_IS: Final = re.compile(r"\b(who|what|which)'s\b")
_WHOLE: Final = frozenset("time day night week way year month morning evening right things well over along".split())


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


def asks_for_list(words: Sequence[str]) -> bool:
    """Whether the question, in folded words, asks for all of a kind."""
    if not words or len(words) > _MOST_WORDS:
        return False
    said = _SHORT_IS.sub(r"\1 is", " ".join(words).replace("’", "'"))
    if _LISTS.match(said):
        return True
    if words[0] == "how" or " how many " in said:
        return _AMOUNT.search(said) is None and any(_is_plural(match[1]) for match in _HOW_MANY.finditer(said))
    if (match := _WHAT_ARE.match(said)) is not None:
        return _is_plural(match[1])
    if (match := _OF_A_KIND.search(said)) is not None and _is_plural(match[1]):
        return True
    return any(
        match[1] not in _WHOLE and any(_is_plural(word) for word in match.groups() if word)
        for match in _ANYWHERE.finditer(said)
    )


def _is_plural(word: str) -> bool:
    return word not in _SINGULAR and _PLURAL.fullmatch(word) is not None


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
