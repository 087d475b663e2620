"""Whom sentences speak of: who acts, who leaves or hands over, whose relatives are named, who is called out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from orion_recall.memory.told_changes.clauses import phrases_in
from orion_recall.memory.told_changes.posts import holders_before
from orion_recall.memory.told_changes.role_lists import PERSONS, PETS
from orion_recall.memory.told_changes.wishes import without_wishes
from orion_recall.memory.told_changes.word_lists import GIVING, GREETINGS, LAST_DAYS, LEAVE_WORDS
from orion_recall.text.normal import without_possessive, words

_AROUND = ".,;:!?()\"'’“”"
_CALLED = re.compile(
    r"^\W*(?:hey|hi|hello|hiya|thanks|thank you|thx|wow|yeah|yep|yes|no|ok|okay|dear|sorry|congrats|cool|great|sure"
    r"|well|morning|good morning|aw|oh|haha)\b"
)
_NOBODY: frozenset[str] = frozenset()
_SECOND_PERSON = frozenset("you your yours you're you'll".split())


class People(NamedTuple):
    """Of whom a text speaks.

    `actors` act in it, `leaving` those of them who leave or hand something over. `kin` are the speaker's relatives
    and pets, `owned`: something is the speaker's. `kin_of_others` are relatives of others, `surnames` the names
    after a name. `addresses`: it speaks to somebody, as "you".
    """

    actors: frozenset[str]
    leaving: frozenset[str]
    kin: frozenset[str]
    kin_of_others: frozenset[str]
    owned: bool
    surnames: Mapping[str, frozenset[str]]
    addresses: bool

    def are_others(self, old: People) -> bool:
        """Whether somebody acts in both texts, and nobody in both."""
        return bool(self.actors and old.actors) and self.actors.isdisjoint(old.actors)

    def are_namesakes(self, old: People) -> bool:
        """Whether one name has other names after it: Felix Nilsen and Felix Castro."""
        return any(last.isdisjoint(old.surnames.get(first, last)) for first, last in self.surnames.items())


def people_in(
    sentences: Sequence[str],
    said: Sequence[str],
    speaker: str,
    names: frozenset[str],
    *,
    replaced: frozenset[str],
    leaves: bool,
) -> People:
    """The people of the sentences of a text, whose folded words are `said`.

    `replaced` are the holders of posts that others get. `leaves`: somebody is said to leave or to hand over.
    """
    actors, kin, owned = _actors_in(sentences, speaker, names)
    return People(
        actors=actors,
        leaving=replaced | (_leaving_in(sentences, speaker, names) if leaves else _NOBODY),
        kin=kin,
        kin_of_others=_kin_of_others_in(sentences),
        owned=owned,
        surnames=_surnames_in(sentences, names),
        addresses=not _SECOND_PERSON.isdisjoint(said),
    )


def called_in(sentences: Iterable[str], names: frozenset[str]) -> frozenset[str]:
    """The names that are only called out, as in "Thanks, Mira!": nothing is said about them."""
    called: set[str] = set()
    others: set[str] = set()
    for sentence in sentences:
        for word in words(folded := sentence.casefold()):
            if (bare := without_possessive(word)) in names:
                is_called = bare == word and _CALLED.search(f"{folded} ") is not None and _is_called(bare, folded)
                (called if is_called else others).add(bare)
    return frozenset(called - others)


def _leaving_in(sentences: Sequence[str], speaker: str, names: frozenset[str]) -> frozenset[str]:
    """Who acts in the sentences in which somebody leaves or hands over; not Esme where "Esme's cold is gone".

    Nor who takes over: what else is told of the new holder stays as it is.
    """
    found: set[str] = set()
    for sentence in sentences:
        said = words(sentence.casefold())
        phrases = phrases_in(words(without_wishes(sentence.casefold())))
        if "leaves" in phrases or phrases.get("handover", "").startswith(GIVING):
            owners = {
                without_possessive(word)
                for word, following in pairwise(said)
                if word.endswith("'s") and following not in LEAVE_WORDS
            }
            found |= _actors_in([sentence], speaker, names)[0] - owners
            if phrases.get("leaves") in LAST_DAYS and (said[0] == "last" or "my" in said):
                found.update(speaker.split()[:1])
    return frozenset(found)


def holders_replaced_in(sentences: Sequence[str], speaker: str, names: frozenset[str]) -> frozenset[str]:
    """The folded names of those whose post somebody gets, as in "Ravi gets Sheila's chair"."""
    own = next(iter(speaker.split()), "")
    return _NOBODY.union(*(holders_before(words(one.casefold()), own, names) for one in sentences))


def _actors_in(
    sentences: Sequence[str], speaker: str, names: frozenset[str]
) -> tuple[frozenset[str], frozenset[str], bool]:
    """Who acts at the beginnings of the sentences, whose relatives are named, and whether something is "my"."""
    actors: set[str] = set()
    kin: set[str] = set()
    owned = False
    for sentence in sentences:
        said = words(sentence.casefold())
        for place, word in enumerate(said):
            if word in ("my", "our", "mon", "ma", "mes", "notre", "mein", "meine", "mi", "mis"):
                owned = True
                for ahead in said[place + 1 : place + 4]:
                    bare = without_possessive(ahead)
                    if bare in PERSONS or bare in PETS:
                        kin.add(bare)
                        break
            elif word in ("me", "us", "mine", "ours"):
                owned = True
            elif word in ("i", "we") or word.startswith(("i'", "we'")):
                actors.update(speaker.split()[:1])
        for word in said[:2] if said[:1] and said[0] not in GREETINGS else ():
            if (bare := without_possessive(word)) in names and not _is_called(bare, sentence.casefold()):
                actors.add(bare)
                break
    return frozenset(actors), frozenset(kin), owned


def _kin_of_others_in(sentences: Iterable[str]) -> frozenset[str]:
    """Whose relatives the sentences begin with, and not the speaker's: brother of "Jure's brother moved out"."""
    found: set[str] = set()
    for sentence in sentences:
        for word, following in pairwise(words(sentence.casefold())[:3]):
            if word.endswith("'s") and without_possessive(following) in PERSONS:
                found.add(without_possessive(following))
    return frozenset(found)


def _is_called(name: str, sentence: str) -> bool:
    """Whether the name is called out, as in "Thanks, Mira!"."""
    after = sentence.find(name) + len(name)
    return sentence[after : after + 1] in (",", "!", ".", "?", ":")


def _surnames_in(sentences: Iterable[str], names: frozenset[str]) -> Mapping[str, frozenset[str]]:
    """The names that follow on a name, folded: nilsen after felix, and nobody after a comma or a full stop."""
    found: dict[str, set[str]] = {}
    for sentence in sentences:
        for first, last in pairwise(sentence.casefold().split()):
            if not first[-1:].isalnum() or first not in names:
                continue
            if (bare := without_possessive(last.strip(_AROUND))) in names:
                found.setdefault(first, set()).add(bare)
    return {first: frozenset(last) for first, last in found.items()}
