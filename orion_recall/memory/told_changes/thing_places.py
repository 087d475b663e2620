"""Where a thing is, as texts tell it: "the drill is in the cellar", "we moved the workshop to the old mill".

And who has it: what was lent, and what came back ("lent Ana the ladder", "Ana brought the ladder back").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from orion_recall.memory.told_changes.posts import Thing, is_for_a_time, thing_at
from orion_recall.memory.told_changes.terms import stem
from orion_recall.memory.told_changes.values import WEEKDAYS
from orion_recall.memory.told_changes.word_lists import GENERAL_WORDS, Heard
from orion_recall.text.normal import STOP_WORDS, without_possessive
from orion_recall.when.vocabulary import MONTHS

_IS: Final = frozenset("is are stands stand hangs hang lives live lies lie sits sit stays stay".split())
_KEEPS: Final = frozenset("keep keeps store stores".split())
_VERBS: Final = _IS | _KEEPS
_MOVES: Final = frozenset("moved carried relocated".split())
_IN: Final = frozenset("in on under behind at above below beside inside".split())
_TO: Final = frozenset("to into".split())
_ON_THE_WAY: Final = frozenset("down up over out back all now kept stored".split())
_OF_ANOTHER: Final = frozenset("his her their your".split())
_KNOWN: Final = frozenset("the my our his her their this".split())
_KNOWN_TO_BOTH: Final = _KNOWN | {"your"}
_NEWS: Final[frozenset[Heard]] = frozenset(("present", "change"))
_LENT: Final = frozenset("lent lend lends loaned gave borrowed borrow borrows borrowing".split())
_BROUGHT: Final = frozenset("brought gave sent handed returned".split())
_IT: Final = frozenset(("it's", "it", "they're", "they"))
_NOT: Final = frozenset("not never no if when whether maybe perhaps should could would might".split())
_MOST = 4
_FEWEST_WORDS: Final = 2
_ENDS: Final = frozenset(("back",))


class Placed(NamedTuple):
    """A thing and where it is, each by its words; `owner` is "his" and the like, "" for the speaker's or anybody's.

    `is_news`: it is said to be there from now on.
    """

    thing: Thing
    owner: str
    place: frozenset[str]
    is_news: bool


class Things(NamedTuple):
    """Things of a text: `placed` with their places, `lent` the stems of what was lent and to whom.

    `returned` are those of what came back.
    """

    placed: tuple[Placed, ...]
    lent: frozenset[str]
    returned: frozenset[str]

    def come_back(self, old: Things) -> bool:
        """Whether something comes back that the older text says to be lent."""
        return not self.returned.isdisjoint(old.lent)

    def are_elsewhere(self, old: Things) -> bool:
        """Whether a thing is no more where, or with whom, the older text tells it to be."""
        return self.come_back(old) or any(_is_elsewhere(one, other) for one in self.placed for other in old.placed)


def things_in(stated: Sequence[Sequence[str]], phrases: Iterable[Mapping[Heard, str]]) -> Things:
    """The things of the statements of a text, each as its folded words with its phrases of change."""
    return Things(_placed_in(stated, phrases), _lent_in(stated), _returned_in(stated))


def _placed_in(stated: Iterable[Sequence[str]], phrases: Iterable[Mapping[Heard, str]]) -> tuple[Placed, ...]:
    """What the sentences, each as its folded words with its phrases of change, tell of where things are."""
    found: list[Placed] = []
    for said, heard in zip(stated, phrases, strict=True):
        if _NOT.isdisjoint(said) and not is_for_a_time(said):
            found += _placed(said, is_news=not _NEWS.isdisjoint(heard))
    return tuple(found)


def _is_elsewhere(new: Placed, old: Placed) -> bool:
    """Whether the newer one says that the very same thing is in another place from now on."""
    is_same = new.thing == old.thing and new.owner == old.owner
    return is_same and new.is_news and new.place.isdisjoint(old.place)


def _lent_in(stated: Iterable[Sequence[str]]) -> frozenset[str]:
    """The stems of what stands after a verb of lending: the thing, and who has it."""
    return frozenset(
        stem(without_possessive(one))
        for said in stated
        if not _LENT.isdisjoint(said) and "back" not in said
        for one in said[min(place for place, word in enumerate(said) if word in _LENT) + 1 :]
        if one not in STOP_WORDS and one not in GENERAL_WORDS
    )


def _returned_in(stated: Iterable[Sequence[str]]) -> frozenset[str]:
    """The last stem of each thing that came back: of "brought the long ladder back", "brought back my ladder"."""
    found: set[str] = set()
    for said in stated:
        if (
            _BROUGHT.isdisjoint(said)
            or ("back" not in said and "returned" not in said)
            or not _NOT.isdisjoint(said)
        ):
            continue
        for place, word in enumerate(said):
            before = said[max(0, place - 2) : place]
            if word not in _KNOWN_TO_BOTH or _BROUGHT.isdisjoint(before):
                continue
            end, thing = thing_at(("the", *said[place + 1 :]), 0, _ENDS)
            is_back = (
                said[place + end : place + end + 1] == ["back"] or before[-1:] == ["back"] or "returned" in before
            )
            if thing and is_back:
                found.add(thing[-1])
    return frozenset(found)


def _placed(said: Sequence[str], *, is_news: bool) -> Iterable[Placed]:
    yield from _placed_in_note(said)
    for place, word in enumerate(said):
        if word not in _KNOWN:
            continue
        end, thing = thing_at(said, place, _VERBS)
        if not thing:
            continue
        before = said[place - 1] if place else ""
        at = end
        is_moved = before in _MOVES
        if not is_moved and before not in _KEEPS:
            if place > 1 or said[at : at + 1] == [] or said[at] not in _IS:
                continue  # the subject stands first: "I know where the drill is"
            at += 1
        leads = _TO if is_moved else _IN
        if is_moved and said[at : at + 1] and said[at] in _IT:  # "moved the spare key, it's in the meter box"
            at += 2 if said[at + 1 : at + 2] and said[at + 1] in _IS else 1
            leads = _IN
        while said[at : at + 1] and said[at] in _ON_THE_WAY:
            at += 1
        if said[at : at + 1] == [] or said[at] not in leads:
            continue
        where = _where(said, at + 1)
        if where:
            yield Placed(thing, word if word in _OF_ANOTHER else "", where, is_news or is_moved)


def _placed_in_note(said: Sequence[str]) -> Iterable[Placed]:
    """Where a thing is that a note begins with: "spare key of my flat lives under the geranium".

    Without a determiner it may be a person, who is here and there: that is never news.
    """
    if not said or said[0] in STOP_WORDS or said[0] in _KNOWN:
        return
    end, thing = thing_at(("the", *said), 0, _VERBS)
    at = end - 1
    if said[at : at + 1] == ["of"] and said[at + 1 : at + 2] and said[at + 1] in _KNOWN:
        at += 3
    if len(thing) < _FEWEST_WORDS or said[at : at + 1] == [] or said[at] not in _IS:
        return
    at += 1
    if said[at : at + 1] and said[at] in _IN and (where := _where(said, at + 1)):
        yield Placed(thing, "", where, is_news=False)


def _where(said: Sequence[str], start: int) -> frozenset[str]:
    """The words of a known place: cellar of "the cellar"; none of "Tuesday", "use" and "a bad state"."""
    found: list[str] = []
    first = said[start] if start < len(said) else ""
    if first not in _KNOWN and first == without_possessive(first):
        return frozenset()
    for word in said[start + (first in _KNOWN) : start + 1 + _MOST]:
        if word in STOP_WORDS or word in WEEKDAYS or word in MONTHS or word[:1].isdigit():
            break
        if word not in GENERAL_WORDS:
            found.append(without_possessive(word))
    return frozenset(found)
