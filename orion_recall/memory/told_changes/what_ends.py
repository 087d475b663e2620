"""What a phrase of an end is about: the head of its subject, and whether the end is only for a while.

"The coffee machine is dead" ends a machine and no coffee; "the shop is closed today" ends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from orion_recall.memory.told_changes.endings import end_of
from orion_recall.memory.told_changes.terms import stem
from orion_recall.memory.told_changes.word_lists import ABSENCES, DEPARTURES, ENDS_AFTER, GENERAL_WORDS
from orion_recall.text.normal import STOP_WORDS, without_possessive, words

_CLAUSE: Final = re.compile(r"[,;:.!?()–—]+\s*|\s-\s|\b(?:and|but|so|because|since|while|when|if|as)\b")
_PREPOSITIONS: Final = frozenset("of on in at with from for near to by about off over under after before".split())
_PRONOUNS: Final = frozenset(
    "i we you he she it they that this those these who which what everything all one me us him her them".split()
)
_VERB_SINCE: Final = frozenset("is are was were has have had been be got get it's that's".split())
# Of these it is the state that ends, for as long as it is said: what is sold or has died is gone for good.
_STATES: Final = frozenset("closed closes shut stopped dead gone".split())
_WHILE: Final = re.compile(
    r"""\b(?: again | today | tonight | (?<!from[ ])tomorrow | this[ ](?:morning|afternoon|evening|week)
      | the[ ]last[ ](?:one|\d+) | last[ ]\d+ | in[ ]the[ ]night | overnight | an[ ]hour | minutes
      | on[ ](?:mon|tues|wednes|thurs|fri|satur|sun)day(?!s) | back[ ](?:on|by)
      | for[ ](?:an?|one|two|three|four|five|six|seven|ten|\d+)[ ](?:day|week|night|hour|minute)s?
      | un?till?[ ](?:the[ ]|next[ ])?(?:\d|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)day)
      | (?:just|only)[ ](?:this[ ]once|for[ ]now|today) )\b""",
    re.VERBOSE,
)
# What is called so may be called by its place or person before: the trip to Lisbon.
_OF_ANYTHING: Final = frozenset(
    "trip trips journey holiday holidays plan plans visit party deal project show event booking weekend".split()
)
_AFTER_SOLD: Final = frozenset(
    """
        me us him her them one two three four five six seven eight nine ten some a an few several many more lots
        before by at in already well out for
    """.split()
)
_AFTER_GONE: Final = frozenset("at in by before within again".split())
_BEFORE_NOUN: Final = frozenset(
    "a an the one first next last bus full police train tram every this that no any each pit truck short".split()
)
_INDEFINITE: Final = frozenset("a an one another two three four some".split())
_MOVING: Final = frozenset("moved move pushed put postponed delayed rescheduled brought bring shifted".split())
_DETERMINERS: Final = frozenset("the my our your his her their this that".split())
_MOST_OBJECT = 4
_AFTER_STOPPED: Final = frozenset("in at for by again".split())
# "Shut for repairs", "closed on Mondays"; before other words they are what somebody does to a thing.
_AFTER_SHUT: Final = frozenset(
    """
        down for on at in until till today tonight tomorrow now since because from due and but so again early all
        off as after before over by to this that next its it is are permanently completely anyway too
    """.split()
)


def is_no_end(said: Sequence[str], place: int, end: int) -> bool:
    """Whether the phrase of an end there says none: a bus stop, what is sold every day, one hen that died."""
    word, before = said[place], said[place - 1] if place else ""
    following = said[end] if end < len(said) else ""
    match word:
        case "sold":
            return following in _AFTER_SOLD or following[:1].isdigit() or before[:1].isdigit()
        case "gone":
            return following in _AFTER_GONE or following[:1].isdigit() or before in ("all", "already")
        case "stop":
            return before in _BEFORE_NOUN
        case "stopped":
            return following in _AFTER_STOPPED
        case "died":
            return place > 1 and said[place - 2] in _INDEFINITE
        case _:
            return False


def is_done_to_a_thing(said: Sequence[str], place: int, end: int) -> bool:
    """Whether "shut" or "closed" there is what somebody does: "Emre shut the shop", "he has shut the lid"."""
    following = said[end] if end < len(said) else ""
    return said[end - 1] in ("shut", "closed") and following != "" and following not in _AFTER_SHUT


def is_for_a_while(said: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether the sentence says that something is off, shut or gone, and that it is so for a day or a while."""
    is_state = not _STATES.isdisjoint(phrase) or [*phrase] in (["no", "more"], ["was", "off"])
    return is_state and _WHILE.search(" ".join(said)) is not None


def heads_of_ends(sentences: Iterable[str], phrases: Iterable[str]) -> frozenset[str] | None:
    """The stems of the heads of what stands before the phrases of an end in the folded sentences.

    None where one of them has none that says of what it is: a pronoun, a time, or nothing at all.
    """
    heads: set[str] = set()
    for sentence, phrase in zip(sentences, phrases, strict=True):
        if not phrase:
            continue
        if " it " in phrase or phrase in ENDS_AFTER or phrase in ABSENCES or phrase in DEPARTURES:
            return None
        clause = next(
            (one for one in _CLAUSE.split(sentence) if f" {phrase} " in f" {' '.join(words(one))} "), None
        )
        if clause is None or (head := _head(words(clause), phrase.split())) is None:
            return None
        heads.add(head)
    return frozenset(heads) if heads else None


def _head(said: Sequence[str], phrase: Sequence[str]) -> str | None:
    """The stem of the last word of the noun before the phrase, without what follows a preposition in it."""
    before = takewhile(lambda word: word not in _PREPOSITIONS, said[: end_of(said, phrase) - len(phrase)])
    named = [word for word in before if word not in _VERB_SINCE]
    while named and named[-1] in STOP_WORDS and not _is_pronoun(named[-1]):
        named.pop()
    if not named or _is_pronoun(named[-1]) or named[-1] in GENERAL_WORDS or named[-1] in _OF_ANYTHING:
        return None
    return stem(without_possessive(named[-1]))


def _is_pronoun(word: str) -> bool:
    return word.partition("'")[0] in _PRONOUNS


def things_moved(stated: Iterable[Sequence[str]], phrases: Iterable[str]) -> frozenset[str]:
    """The stems of what the phrases of another time have for an object: script of "pushed your script back"."""
    found: set[str] = set()
    for said, phrase in zip(stated, phrases, strict=True):
        first = phrase.partition(" ")[0]
        if first not in _MOVING or first not in said:
            continue
        after = said[said.index(first) + 1 :][:_MOST_OBJECT]
        if after and after[0] in _DETERMINERS:
            named = [*takewhile(lambda word: word not in STOP_WORDS and word not in GENERAL_WORDS, after[1:])]
            found.update(stem(without_possessive(word)) for word in named)
    return frozenset(found)
