"""Posts that get another holder, as in "Ravi gets Sheila's job" or "Fern takes over the mill"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orion_recall.memory.succession.terms import stem
from orion_recall.text.normal import STOP_WORDS, without_possessive

SEATS = frozenset("desk chair job role place post position office seat".split())
_GETS = frozenset("gets get got has takes took given inherits inherited fills filled".split())
_BEGINS = frozenset("starts begins started sits".split())
_BEFORE_NAME = (("takes", "over", "from"), ("took", "over", "from"), ("taking", "over", "from"))
_HEADS = frozenset(
    "run runs ran lead leads led head heads headed manage manages managed direct directs owns".split()
)
_HEAD_OF = frozenset("head director manager owner leader charge".split())
_TAKES = frozenset("takes took taking take".split())
_DETERMINERS = frozenset("the our my your his her their this".split())
_MOST = 4
_NEAR, _NEAR_OWN = 3, 5
"""Words before a seat in which it is said that somebody gets it: of another's, and of the speaker's own."""


def holders_before(said: Sequence[str], speaker: str, names: frozenset[str]) -> frozenset[str]:
    """The folded names of those whose post another gets; `speaker` is the name for "my chair", "" for nobody."""
    found = {holder for holder in _taken_from(said) if holder in names}
    for holder, place in _seats(said):
        if holder in names or (holder == "my" and speaker and not names.isdisjoint(said[:place])):
            found.add(speaker if holder == "my" else holder)
    return frozenset(found)


def hands_a_post_over(said: Sequence[str]) -> bool:
    """Whether the folded words may say that somebody gets another's post; no names are known."""
    return next(_seats(said), None) is not None


def _taken_from(said: Sequence[str]) -> Iterator[str]:
    for place in range(3, len(said)):
        if tuple(said[place - 3 : place]) in _BEFORE_NAME:
            yield without_possessive(said[place])


def _seats(said: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Whose seat somebody gets, "my" for the speaker's, and the place of that word."""
    for place, word in enumerate(said[:-1]):
        if said[place + 1] not in SEATS:
            continue
        bare = without_possessive(word)
        if bare != word and not _GETS.isdisjoint(said[max(0, place - _NEAR) : place]):
            yield bare, place
        elif word == "my" and not (_GETS | _BEGINS).isdisjoint(said[max(0, place - _NEAR_OWN) : place]):
            yield word, place


def headed_in(said: Sequence[str]) -> frozenset[str]:
    """The stems of what somebody heads: mill of "Orla runs the mill" and of "head of the mill"."""
    found: set[str] = set()
    for place, word in enumerate(said):
        if word in _HEAD_OF and said[place + 1 : place + 2] == ["of"]:
            found.update(_thing(said, place + 2))
        elif word in _HEADS:
            found.update(_thing(said, place + 1))
    return frozenset(found)


def taken_over_in(said: Sequence[str]) -> frozenset[str]:
    """The stems of what somebody takes over: mill of "Fern takes over the mill"."""
    found: set[str] = set()
    for place in range(len(said) - 2):
        if said[place] in _TAKES and said[place + 1] == "over":
            found.update(_thing(said, place + 2))
    return frozenset(found)


def _thing(said: Sequence[str], place: int) -> Iterator[str]:
    """The stems of one thing with its determiner there; nothing of "runs every morning"."""
    if said[place : place + 1] == [] or said[place] not in _DETERMINERS:
        return
    for word in said[place + 1 : place + 1 + _MOST]:
        if word in STOP_WORDS:
            return
        yield stem(without_possessive(word))
