"""The edges of a conversation, made from its turns: next turn, reply, reference and shared topic."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orion_recall.text.normal import content_words, normal_form, without_possessive, words

_SHORTEST: Final = 4
# Words of looking back and of plain talk: two turns that share them need not have a topic in common.
_OF_TALK: Final = frozenset(
    """remember remembered recall earlier previously already discuss discussed mention mentioned talk talked talking
    talks said says tell told asked know knew think thought thanks thank please really great good nice well sure
    sounds yeah haha hello okay sorry maybe like even much still going want wanted there don't didn't can't won't
    isn't you've we've they've""".split()
)


def turn_keywords(text: str) -> frozenset[str]:
    """The keywords of a text."""
    bare = (without_possessive(word) for word in content_words(text) if word not in _OF_TALK)
    return frozenset(word for word in bare if len(word) >= _SHORTEST and word not in _OF_TALK)


SaidBy = Literal["you", "we", "i"]
"""Who said what is referred to: another speaker, any of them, or the turn's own speaker."""

_MOST_CHARS: Final = 4000
_FEWEST_WORDS: Final = 3
_MOST_QUOTATIONS: Final = 8
# At most three words between, and each in one way only: no text makes the search slow.
_BETWEEN: Final = r"(?:['’](?:ve|d)|\s+(?:have|had|already|also|once|just|both|all|first|last|\w{2,12}ly)){0,3}"
_SAID: Final = r"""(?:said|told|mentioned|discussed|agreed|promised|suggested|recommended|explained|asked|wrote
    |described|decided|planned|(?:talked|spoke|chatted|were\s+talking)(?:\s+about)?)"""
_UNIT: Final = r"""(?:time|night|week|weekend|month|year|spring|summer|autumn|fall|winter|morning|afternoon|evening
    |\w{3,6}day)"""
_BEFORE: Final = rf"""(?:earlier|before|previously|already|yesterday|once|back\s+then|the\s+other\s+(?:day|week)
    |\w+\s+\w+\s+ago|(?:last|this)\s+{_UNIT}|(?:on|in)\s+[A-Z]\w+)"""
_TALK: Final = r"(?:talk|chat|conversation|discussion|message)"
_REFERS: Final = re.compile(
    rf"""\b(?:as|like|what|the\s+\w+(?:\s+that)?|everything|that)\s+(?P<led>you|we|i){_BETWEEN}\s+{_SAID}\b
      | \b(?P<dated>you|we|i){_BETWEEN}\s+{_SAID}\b[^.!?\n]{{0,60}}?\s{_BEFORE}\b
      | \b(?:earlier|yesterday|last\s+{_UNIT})\s*,?\s+(?P<after>you|we|i){_BETWEEN}\s+{_SAID}\b
      | \bremember\s+(?:when|what|how|that)\s+(?P<recalled>you|we|i)\b
      | \b(?:as|like)\s+(?:already\s+)?(?:discussed|mentioned|agreed|promised|described|suggested)\b
      | \b(?:back|returning)\s+to\s+(?:what|our|your)\b
      | \b(?:our|your)\s+(?:last|earlier|previous)\s+{_TALK}\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"\"([^\"\n]{6,300})\"|“([^”\n]{6,300})”|„([^“”\n]{6,300})[“”]|«([^»\n]{6,300})»")


def refers_back(text: str) -> SaidBy | None:
    """Whose earlier words the turn refers to; None where it refers to none. The first reference counts."""
    match = _REFERS.search(text[:_MOST_CHARS])
    if match is None:
        return None
    named = next((match[name] for name in ("led", "dated", "after", "recalled") if match[name]), "we").casefold()
    return "you" if named == "you" else "i" if named == "i" else "we"


def quotations(text: str) -> Sequence[str]:
    """What the text has in quotation marks, of three words or more, in normal form; 8 at most, each once."""
    found: dict[str, None] = {}
    for match in _QUOTED.finditer(text[:_MOST_CHARS]):
        said = words(next(filter(None, match.groups())))
        if len(said) >= _FEWEST_WORDS:
            found[" ".join(said)] = None
    return list(found)[:_MOST_QUOTATIONS]


LEAST_SHARED = 2
"""The fewest shared keywords that make a topic."""
_MOST_QUOTED = 4  # a phrase that more turns have is a figure of speech
_PAIRS_AT_ONCE = 1_000_000

Postings = Mapping[str, Sequence[int]]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn: its text, and what its edges depend on.

    `order` grows with time: of two turns the one with the lower number was said first; None: unknown, and the turn
    refers to nothing by words. `about` are times that the text tells, in the scale of `order`: a reference that
    names one ("last week") is to a turn of that time.
    """

    text: str
    keywords: frozenset[str]
    session: str | None = None
    speaker: str | None = None
    order: float | None = None
    about: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(
        cls,
        text: str,
        *,
        session: str | None = None,
        speaker: str | None = None,
        order: float | None = None,
        about: tuple[tuple[float, float], ...] = (),
    ) -> Turn:
        """A turn with the keywords of its text."""
        return cls(
            text=text,
            keywords=turn_keywords(text),
            session=session,
            speaker=speaker,
            order=order,
            about=about,
        )


class Edges(NamedTuple):
    """Directed edges between places in a list of turns: three arrays of one length."""

    source: Places
    target: Places
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]], weight: float = 1.0) -> Edges:
        """An edge of one weight for each pair of places, each pair once."""
        kept = list(dict.fromkeys(pairs))
        ends = np.array(kept, dtype=np.int64).reshape(-1, 2)
        return cls(ends[:, 0], ends[:, 1], np.full(len(kept), weight))

    @classmethod
    def together(cls, edges: Iterable[Edges]) -> Edges:
        """All of these edges."""
        every = [*edges, cls.of(())]
        return cls(*(np.concatenate(arrays) for arrays in zip(*every, strict=True)))

    def scaled(self, factor: float) -> Edges:
        """The edges with their weights times the factor."""
        return self._replace(weight=self.weight * factor)


def postings_of(turns: Sequence[Turn]) -> Postings:
    """The places of the turns that have each keyword, ascending."""
    found: dict[str, list[int]] = defaultdict(list)
    for place, turn in enumerate(turns):
        for keyword in turn.keywords:
            found[keyword].append(place)
    return found


def next_pairs(turns: Sequence[Turn]) -> list[tuple[int, int]]:
    """The pairs of consecutive turns of each session; the turns are in the order of their sessions' talk."""
    last: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for place, turn in enumerate(turns):
        if turn.session is None:
            continue
        if turn.session in last:
            pairs.append((last[turn.session], place))
        last[turn.session] = place
    return pairs


def reply_pairs(turns: Sequence[Turn], following: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """From each reply to the turn that it answers: of the `following` pairs those of two speakers."""
    return [
        (after, before)
        for before, after in following
        if (one := turns[before].speaker) and (other := turns[after].speaker) and one != other
    ]


def reference_pairs(turns: Sequence[Turn], postings: Postings) -> list[tuple[int, int]]:
    """From each turn that refers back, or quotes, to the turn that it means.

    By "as we discussed" a turn refers to the earlier one with which it shares most keywords, one at least, the last
    of several; by "you said" to such a turn of another speaker, by "I told you" to one of its own.
    """
    pairs: list[tuple[int, int]] = []
    for place, turn in enumerate(turns):
        if (by := refers_back(turn.text)) is not None and (meant := _meant(place, by, turns, postings)) is not None:
            pairs.append((place, meant))
        for quoted in quotations(turn.text):
            pairs += ((place, other) for other in _with_words(quoted, place, turns, postings))
    return pairs


def topic_edges(turns: Sequence[Turn], postings: Postings, *, most_turns: int | None = None) -> Edges:
    """From each turn to the later ones in the list that share two keywords or more with it.

    With `most_turns` a keyword that more turns have is no part of a topic: then the number of edges grows in
    proportion to the turns, whatever they say.
    """
    numbers = {
        word: np.array(places, dtype=np.int64)
        for word, places in postings.items()
        if 1 < len(places) <= (most_turns or len(turns))
    }
    sizes = np.array([len(turn.keywords) for turn in turns], dtype=np.int64)
    seen: Counter[str] = Counter()
    found: list[Edges] = []
    pairs: list[Places] = []
    waiting = 0
    for place, turn in enumerate(turns):
        for word in turn.keywords:
            if (places := numbers.get(word)) is not None:
                seen[word] += 1  # postings ascend: this turn is the one at that position
                later = places[seen[word] :]
                pairs.append(place * len(turns) + later)
                waiting += len(later)
        if waiting > _PAIRS_AT_ONCE:
            found.append(_shared(pairs, sizes))
            pairs, waiting = [], 0
    return Edges.together((*found, _shared(pairs, sizes)))


def _shared(pairs: Sequence[Places], sizes: NDArray[np.int64]) -> Edges:
    """The topics of pairs that come once for each keyword they share; a pair is `source * turns + target`."""
    if not pairs:
        return Edges.of(())
    coded, shared = np.unique(np.concatenate(pairs), return_counts=True)
    enough = shared >= LEAST_SHARED
    source, target = np.divmod(coded[enough], len(sizes))
    return Edges(source, target, shared[enough] / np.maximum(sizes[source], sizes[target]))


def _meant(place: int, by: SaidBy, turns: Sequence[Turn], postings: Postings) -> int | None:
    turn = turns[place]
    if turn.order is None:
        return None
    shared: Counter[int] = Counter()
    for keyword in turn.keywords:
        shared.update(postings[keyword])
    earlier = [other for other in shared if _is_meant(turns[other], turn, by)]
    past = [(start, end) for start, end in turn.about if start < turn.order]
    if past:  # "last week": turns of that time, where there are some
        dated = [one for one in earlier if any(start <= (turns[one].order or 0.0) < end for start, end in past)]
        earlier = dated or earlier
    return max(earlier, key=lambda one: (shared[one], turns[one].order or 0.0, one), default=None)


def _is_meant(other: Turn, turn: Turn, by: SaidBy) -> bool:
    if other.order is None or turn.order is None or other.order >= turn.order:
        return False
    if by == "we" or other.speaker is None or turn.speaker is None:
        return True
    return (other.speaker == turn.speaker) is (by == "i")


def _with_words(quoted: str, place: int, turns: Sequence[Turn], postings: Postings) -> Iterator[int]:
    """The other turns that have the quoted words in their order; none where many have them."""
    lists = [postings[keyword] for keyword in turn_keywords(quoted) if keyword in postings]
    if not lists:
        return
    found = [
        other
        for other in min(lists, key=len)
        if other != place and f" {quoted} " in f" {normal_form(turns[other].text)} "
    ]
    if len(found) <= _MOST_QUOTED:
        yield from found
