"""Posts that get another holder: "Ravi gets Sheila's job", "Fern takes over the mill", "I hand it to Ana"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from orion_recall.memory.told_changes.role_lists import PERSONS
from orion_recall.memory.told_changes.terms import stem
from orion_recall.memory.told_changes.values import WEEKDAYS
from orion_recall.memory.told_changes.word_lists import GENERAL_WORDS, ROLES, Heard
from orion_recall.text.normal import STOP_WORDS, without_possessive

Thing = tuple[str, ...]
"""A thing by the stems of its name, in their order."""
SEATS = frozenset("desk chair job role place post position office seat".split())
_GETS = frozenset("gets get got has takes took given inherits inherited fills filled".split())
_BEGINS = frozenset("starts begins started sits sit sitting".split())
_SITS = frozenset("sits sit sitting".split())
_TAKEN = frozenset("takes took taking taken".split())
_NEAR_OVER = 6
"""Words before a name in which "over" stands: "took over the collections from Orla"."""
_HEADS = frozenset(
    "run runs ran lead leads led head heads headed manage manages managed direct directs owns".split()
)
_HEAD_OF = frozenset("head director manager owner leader charge".split())
_TAKES = frozenset("takes took taking take".split())
_DETERMINERS = frozenset("the our my your his her their this".split())
# "Helps to run it", "used to run it"; and "runs it with me".
_NOT_HEADING = frozenset("to help helps helped helping can could would might should".split())
_WITH_ME = frozenset((("with", "me"), ("with", "us"), ("with", "her"), ("with", "him"), ("with", "them")))
# "I keep the keys of the allotment", "I look after the garden".
_KEEPS = frozenset("keep keeps kept have has".split())
_LOOKS = frozenset("look looks looking".split())
_KEYS = frozenset("key keys".split())
_HANDS = frozenset(
    "hand hands handed handing pass passes passed passing give gives gave given giving entrust entrusted".split()
)
_FROM = frozenset("takes took taking".split())
_FROM_ME = (("from", "me"), ("off", "me"), ("off", "my", "hands"))
_NOT_SO = frozenset(
    "not never no don't didn't doesn't won't can't cannot isn't wasn't haven't if when whenever unless before "
    "until almost nearly".split()
)
# What is handed over for a time comes back.
_FOR_A_TIME = frozenset("while until till tonight during temporarily meanwhile whenever".split())
_TIME_AFTER_FOR = frozenset(
    "the a an one two three four a this next now today tonight tomorrow once some my his her our their".split()
)
_THIS = frozenset("week weekend month time evening morning afternoon summer winter spring autumn".split())
_RUNS = frozenset("runs keeps leads manages has".split())
_KEY_STEMS = frozenset(map(stem, _KEYS))
_OF = frozenset("of to for".split())
# Words before "rent" that tell no owner; and what a post or rent is of where nothing is said.
_BEFORE_RENT = frozenset("the our my your his her their this whole total higher lower raised new pay pays".split())
_OF_POST = frozenset("of at for in".split())
_OWN = frozenset(map(stem, "flat apartment house home building company team office firm".split()))
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
    return next(_seats(said), None) is not None or next(_taken_from(said), None) is not None


def _taken_from(said: Sequence[str]) -> Iterator[str]:
    for place in range(3, len(said)):
        if said[place - 1] == "from" and any(
            said[over] == "over" and said[over - 1] in _TAKEN
            for over in range(max(1, place - _NEAR_OVER), place - 1)
        ):
            yield without_possessive(said[place])


def _seats(said: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Whose seat somebody gets, "my" for the speaker's, and the place of that word."""
    for place, word in enumerate(said[:-1]):
        if said[place + 1] not in SEATS:
            continue
        bare = without_possessive(word)
        if bare != word and not (_GETS | _SITS).isdisjoint(said[max(0, place - _NEAR) : place]):
            yield bare, place
        elif word == "my" and not (_GETS | _BEGINS).isdisjoint(said[max(0, place - _NEAR_OWN) : place]):
            yield word, place


def _headed_in(said: Sequence[str]) -> frozenset[Thing]:
    """What somebody heads: mill of "Orla runs the mill" and of "head of the mill"."""
    found: set[Thing] = set()
    for place, word in enumerate(said):
        following = said[place + 1] if place + 1 < len(said) else ""
        at = place + 1
        if (
            (word in _HEAD_OF and following == "of")
            or (word in _LOOKS and following == "after")
            or (word == "responsible" and following == "for")
        ):
            at = place + 2
        elif word not in _HEADS and not (word in _KEEPS and _KEYS.intersection(said[place + 2 : place + 3])):
            continue
        end, thing = thing_at(said, at)
        if (place and said[place - 1] in _NOT_HEADING) or tuple(said[end : end + 2]) in _WITH_ME:
            continue
        found.add(thing)
    return frozenset(found - {()})


def is_same(one: Thing, other: Thing) -> bool:
    """Whether two names of things may be of one: "the club" and "the book club", not "the book"."""
    least = min(len(one), len(other))
    return one[-least:] == other[-least:]


class Posts(NamedTuple):
    """What a text tells of posts. `is_role`: it names a role, such as a landlord or a teacher.

    `headed` and `taken` are what somebody heads, and what somebody takes over for good; `handed` is what is handed
    on to another; `qualified` are the stems of whose post or rent is meant.
    """

    is_role: bool
    headed: frozenset[Thing]
    taken: frozenset[Thing]
    handed: Handed | None
    qualified: frozenset[str]

    def are_of_others(self, old: Posts) -> bool:
        """Whether both name what somebody heads, and nothing of it is one."""
        heads = self.headed and old.headed
        return bool(heads) and not any(is_same(one, other) for one in self.headed for other in old.headed)


def posts_in(said: Sequence[str], stated: Sequence[Sequence[str]], speaker: str, names: frozenset[str]) -> Posts:
    """The posts of a text, by its folded words, the words of each of its statements, and the names in it."""
    return Posts(
        is_role=not ROLES.isdisjoint(said),
        headed=_headed_in(said),
        taken=_taken_over_in(stated),
        handed=_handed_in(stated, speaker, names),
        qualified=_qualified_in(said),
    )


class Handed(NamedTuple):
    """What somebody hands on to another for good, and who had it, as a folded name."""

    thing: Thing
    giver: str


def _handed_in(stated: Iterable[Sequence[str]], speaker: str, names: frozenset[str]) -> Handed | None:
    """What is handed on first in the sentences, each as its folded words: "I'm handing the choir to Thijs".

    None of what is handed on for a time, or of what is only given: "the keys for the weekend", "a coffee".
    """
    own = next(iter(speaker.split()), "")
    return next((found for said in stated if (found := _handed(said, own, names)) is not None), None)


def _handed(said: Sequence[str], speaker: str, names: frozenset[str]) -> Handed | None:
    if is_for_a_time(said):
        return None
    for place, word in enumerate(said):
        if word not in _HANDS and word not in _FROM:
            continue
        if not _NOT_SO.isdisjoint(said[max(0, place - 3) : place]):
            continue
        end, thing = thing_at(said, place + 1 + (said[place + 1 : place + 2] == ["over"]))
        if not thing:
            continue
        if len(thing) > 1 and thing[0] in _KEY_STEMS and _has_it_now(said):
            thing = thing[1:]
        if word in _HANDS:
            end += said[end : end + 1] in (["on"], ["over"])
            is_given = said[end : end + 1] == ["to"] and not names.isdisjoint(
                map(without_possessive, said[end + 1 : end + 3])
            )
            giver = _before(said[:place], speaker, names) if is_given else ""
        else:
            giver = _giver_after(said, end, speaker, names)
        if giver:
            return Handed(thing, giver)
    return None


def _has_it_now(said: Sequence[str]) -> bool:
    """Whether somebody is said to run it, too: "I gave the keys to Ana, she runs it now"."""
    return any(word in _RUNS and said[place + 1 : place + 2] == ["it"] for place, word in enumerate(said))


def _before(said: Sequence[str], speaker: str, names: frozenset[str]) -> str:
    """Who acts in the words before a verb: the last name or "I"; "" for nobody who is known."""
    for word in reversed(said):
        if word in ("i", "we") or word.startswith(("i'", "we'")):
            return speaker
        if word in names:
            return word
    return ""


def _giver_after(said: Sequence[str], end: int, speaker: str, names: frozenset[str]) -> str:
    """From whom somebody takes a thing, in the words behind it; "" for nobody who is known."""
    if any(tuple(said[end : end + len(one)]) == one for one in _FROM_ME):
        return speaker
    after = said[end + 1 : end + 2]
    return without_possessive(after[0]) if said[end : end + 1] == ["from"] and after and after[0] in names else ""


def is_for_a_time(said: Sequence[str]) -> bool:
    """Whether the folded words say of something that it is so for a time: "while I'm away", "for the weekend"."""
    if not _FOR_A_TIME.isdisjoint(said):
        return True
    for place, word in enumerate(said[:-1]):
        following = said[place + 1]
        if word == "for" and (following in _TIME_AFTER_FOR or following[:1].isdigit()):
            return True
        if word == "this" and (following in _THIS or following in WEEKDAYS):
            return True
    return False


def _taken_over_in(stated: Iterable[Sequence[str]]) -> frozenset[Thing]:
    """What somebody takes over for good in the sentences, each as its folded words: "Fern takes over the mill"."""
    return frozenset(
        thing_at(said, place + 2)[1]
        for said in stated
        if not is_for_a_time(said)
        for place, word in enumerate(said[:-2])
        if word in _TAKES and said[place + 1] == "over"
    ) - {()}


def thing_at(said: Sequence[str], place: int, ends: frozenset[str] = frozenset()) -> tuple[int, Thing]:
    """Where the name of a thing with its determiner ends there, and its stems; none of "runs every morning".

    Without `ends`, the words that end a name, keys are of what they open: key and allotment of "the keys of the
    allotment".
    """
    found: list[str] = []
    if place >= len(said) or said[place] not in _DETERMINERS:
        return place, ()
    at = place + 1
    while at < min(len(said), place + 2 + _MOST):
        word = said[at]
        if (
            not ends
            and said[at - 1] in _KEYS
            and word in _OF
            and said[at + 1 : at + 2]
            and said[at + 1] in _DETERMINERS
        ):
            end, of = thing_at(said, at + 1)
            return end, (*found, *of)
        if word in STOP_WORDS or word in ends or (found and word in GENERAL_WORDS):
            break
        if word not in GENERAL_WORDS:
            found.append(stem(without_possessive(word)))
        at += 1
    return at, tuple(found)


def without_temporary_handovers(phrases: Mapping[Heard, str], said: Sequence[str]) -> Mapping[Heard, str]:
    """The phrases of change of a sentence without that of a handover for a time: "steps in while I'm away"."""
    if "handover" not in phrases or not is_for_a_time(said):
        return phrases
    return {kind: phrase for kind, phrase in phrases.items() if kind != "handover"}


def _qualified_in(said: Sequence[str]) -> frozenset[str]:
    """The stems of whose post or rent is meant: sister of "my sister's landlord", pub of "landlord of the pub"."""
    found: set[str] = set()
    for place, word in enumerate(said):
        if word not in ROLES and word != "rent":
            continue
        before = said[place - 1] if place else ""
        if (bare := without_possessive(before)) != before and bare in PERSONS:
            found.add(stem(bare))
        elif (
            word == "rent"
            and before not in _BEFORE_RENT
            and before not in STOP_WORDS
            and before not in GENERAL_WORDS
        ):
            found.add(stem(before))
        if said[place + 1 : place + 2] and said[place + 1] in _OF_POST:
            found.update(thing_at(said, place + 2)[1][-1:])
    return frozenset(found) - _OWN - {""}
