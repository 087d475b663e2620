"""What two texts have in common, and in what they differ: the evidence for a succession."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orion_recall.memory.succession.corrections import corrected_kinds, is_other_code, is_other_weekday
from orion_recall.memory.succession.nearness import Nearness
from orion_recall.memory.succession.span import Reading, Span
from orion_recall.memory.told_changes.endings import SPEAKER
from orion_recall.memory.told_changes.plans import came_true, is_of_another_amount
from orion_recall.memory.told_changes.posts import is_same
from orion_recall.memory.told_changes.role_lists import PERSONS
from orion_recall.memory.told_changes.statements import Statement, is_restated
from orion_recall.memory.told_changes.terms import families_of, stem
from orion_recall.memory.told_changes.values import TIMED
from orion_recall.memory.told_changes.word_families import FAMILIES, FAMILY_VALUES, NEED_A_SUBJECT, ONE_VALUED
from orion_recall.memory.told_changes.word_lists import LAST_DAYS, NEW_OF_ONES_OWN, ROLES, CueKind
from orion_recall.text.normal import STOP_WORDS, without_possessive

TELLING: frozenset[CueKind] = frozenset(("change", "switch", "amount", "shift", "handover", "end"))
"""Cues that say by themselves that something is new."""
FAMILY_STEMS = {name: frozenset(stem(word) for word in listed.split()) for name, listed in FAMILIES.items()}
_KIN = frozenset(map(stem, PERSONS))
_ROLE_STEMS = frozenset(map(stem, ROLES))
# Stems beside "days without coffee" that make the older text one of something else: a non-smoker, a coffee maker.
_WITHOUT = frozenset("non without quit stop maker machin pot cup mug tabl shop bean grind".split())
_ENDING = frozenset(map(stem, "shut closed sold stopped cancelled gone died quit".split()))
_HABITS_END = frozenset(("quit", "quits", "gave up", "given up", "giving up"))
_OWN_ENDS = frozenset(("gave up", "given up", "giving up"))
_IS_SO: frozenset[CueKind] = frozenset(("present", "weak"))
_CHANGES: frozenset[CueKind] = TELLING - {"handover"}
_STRONG = 0.7
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What two spans have in common, and in what they differ.

    `strong` are shared stems that say something; `things` those of them that are no words of a shared family,
    and no relatives; `told` those of these that are no names. `functional` are shared families of one value at a
    time, `clash` the types of values that differ. `cites`: the newer one names the older one's date. `concerned`:
    whom the older one names leaves or hands over. `other_state`: what comes again is over, or at another pace,
    or a thing is in another place, or another time stands for the older one's, which the newer one names as such
    (`corrects`). `changed` are the stems of what the newer one says a change of.
    """

    cues: frozenset[CueKind]
    subject: float
    likeness: float
    strong: tuple[str, ...]
    told: tuple[str, ...]
    things: tuple[str, ...]
    families: frozenset[str]
    functional: frozenset[str]
    clash: tuple[str, ...]
    cites: bool
    concerned: bool
    other_state: bool
    corrects: bool
    changed: frozenset[str]

    @property
    def timed_clash(self) -> bool:
        """Whether they tell different times."""
        return any(kind in self.clash for kind in TIMED)

    @property
    def restates(self) -> bool:
        """Whether the newer one tells another value of what the older one told, in words of the same family."""
        return any(kind in self.clash for family in self.functional for kind in FAMILY_VALUES.get(family, ()))


def evidence_of(new: Span, old: Span, one: Reading, other: Reading, near: Nearness) -> Evidence:
    change = new.change
    shared = {
        term: min(weight, old.weights[term]) * near.rarity(term)
        for term, weight in new.weights.items()
        if term in old.weights
    }
    strong = tuple(term for term, weight in shared.items() if weight >= _STRONG)
    if "end" in change.cues:  # that both shops shut says nothing of one thing
        strong = tuple(term for term in strong if term not in _ENDING)
    if len(strong) > 1 and (new.names ^ old.names).issuperset(strong):
        strong = ()  # Sea Lion Island, and who snores like a sea lion
    # "Her desk" is her work.
    families = (new.families & old.families) - ({"workspace"} if "handover" in change.cues else _NOTHING)
    clash = [kind for kind in new.values if _tells_another(new, old, kind)]
    if "name" in clash and all(stem(name) in old.weights for name in new.values["name"]):
        clash.remove("name")  # a word that only one of them writes as a name
    if "name" in clash and not any("name" in FAMILY_VALUES.get(family, ()) for family in families & ONE_VALUED):
        clash.remove("name")  # two texts mostly name different people
    tells_amount = "amount" in change.cues or "price" in new.families
    is_price = change.may_tell_price and "clock" not in old.values
    is_amount = ("number" in new.values and tells_amount) or is_price
    clash += ["money"] if "money" in old.values and not clash and is_amount else []
    corrected = corrected_kinds(new, old, one, strong) if change.corrected else []
    clash += [kind for kind in corrected if kind not in clash]
    is_corrected = (
        bool(corrected)
        or is_other_code(new, old, one, other, near, strong)
        or is_other_weekday(new, old, one, other, near, strong=strong, clash=clash)
    )
    cues = set(change.cues)
    if not any(kind in old.values for kind in TIMED):
        cues.discard("shift")
    is_own = change.phrases.get("change") in NEW_OF_ONES_OWN and not _has_one(old, change.renewed)
    if is_own or _gives_back_another(new, old):
        cues.discard("change")
    if "end" in cues and _ends_another(new, old, one):
        cues.discard("end")
    # Who comes every Monday is meant by his own "I", too. Whose last day it is leaves his role, not all of his.
    gone = change.aims.departing if change.phrases.get("end") == "gone" else _NOTHING
    had = old.named | (old.people.actors if old.recurrence.comes_again else _NOTHING)
    leaving = (new.people.leaving | gone) & had
    leaving = frozenset(one for one in leaving if stem(one) not in old.happened)
    of_role = old.posts.is_role and change.phrases.get("leaves") in LAST_DAYS and not leaving.isdisjoint(old.named)
    concerned = bool(leaving and ("handover" in cues or leaving - {one.first_name} or of_role))
    if "handover" in cues and not concerned and _hands_over_another(new, old):
        cues.discard("handover")
        if change.phrases.get("change", "").startswith("from then on"):
            cues.discard("change")  # since when he has it
    if not {"number", "money"}.intersection(clash) or "price" in new.families - old.families:
        cues.discard("amount")  # whoever raises a price changes nothing where none is told
    if change.renewed.intersection(strong):
        cues.add("present")
    passes_on = _takes_post(new, old, cues)
    if passes_on:
        cues.add("handover")
    departs = bool(change.aims.departing) and "end" not in cues
    subject = sum(shared.values())
    return Evidence(
        cues=frozenset(cues),
        subject=subject,
        likeness=subject / (min(sum(new.weights.values()), sum(old.weights.values())) or 1.0),
        strong=strong,
        told=tuple(term for term in strong if term not in new.names and not of_families(term, families)),
        things=tuple(term for term in strong if not of_families(term, families) and term not in _KIN),
        families=families,
        functional=families & ONE_VALUED,
        clash=tuple(clash),
        cites=_cites(new, old, cues, clash),
        concerned=concerned or passes_on,
        other_state=is_corrected or _is_in_another_state(new, old),
        corrects=is_corrected,
        changed=change.subjects_besides_ends if departs else change.subjects,
    )


def _gives_back_another(new: Span, old: Span) -> bool:
    """Whether what the newer one says to be given back or taken away is nothing that the older one tells of."""
    first, *between = new.change.phrases.get("change", "").split() or ("",)
    told = [word for word in between[:-1] if word not in STOP_WORDS and first in ("gave", "took", "taken")]
    if first in ("moved", "moving") and len(between) > 1 and "from" not in between:  # "moved its reception to"
        told = [word for word in between[:-1] if word not in STOP_WORDS]
    return bool(told) and not _has_one(old, frozenset(map(stem, told)))


def _has_one(old: Span, stems: frozenset[str]) -> bool:
    """Whether the older one tells of a thing of these stems, or of one of its family."""
    of_families = (FAMILY_STEMS[family] for family in old.families)
    return not stems.isdisjoint(old.weights) or any(not stems.isdisjoint(one) for one in of_families)


def tells_same_post(new: Span, old: Span) -> bool:
    """Whether both name one post, or a role of the same word."""
    return not _ROLE_STEMS.isdisjoint(new.weights.keys() & old.weights.keys())


def _hands_over_another(new: Span, old: Span) -> bool:
    """Whether what the newer one says that somebody takes over is nothing that the older one tells of.

    That the older one names the new holder is not enough.
    """
    if new.posts.taken:
        return not any(thing[-1] in old.weights for thing in new.posts.taken)
    return not (old.posts.headed or new.posts.handed or tells_same_post(new, old))


def _takes_post(new: Span, old: Span, cues: set[CueKind]) -> bool:
    """Whether another gets what somebody heads: "Fern takes over the mill" after "Orla runs the mill".

    Or that one hands it on ("I'm handing the mill to Fern"), or it has another head now ("Fern runs the mill now").
    """
    if any(one.is_post and other.is_post for one, other in _restatements(new, old)):
        return True
    posts, had, actors, before = new.posts, old.posts, new.people.actors, old.people.actors
    if not had.headed:
        return False
    if posts.handed is not None and posts.handed.giver in before:
        return any(is_same(posts.handed.thing, one) for one in had.headed)
    if "handover" in cues and any(is_same(one, other) for one in posts.taken for other in had.headed):
        return actors != before
    is_now = "present" in cues and not (new.recurrence.comes_again or new.change.adds)
    if not is_now or posts.headed.isdisjoint(had.headed):
        return False
    return bool(actors) and bool(before) and before.isdisjoint(actors | new.named)


def _restatements(new: Span, old: Span) -> list[tuple[Statement, Statement]]:
    return [(one, other) for one in new.statements for other in old.statements if is_restated(one, other)]


def _is_in_another_state(new: Span, old: Span) -> bool:
    """Whether the newer one tells that what the older one tells is otherwise: a habit, a place, a value."""
    is_other_habit = not new.people.are_others(old.people) and new.recurrence.is_other_habit(old.recurrence)
    return bool(_restatements(new, old)) or is_other_habit or new.things.are_elsewhere(old.things)


def _tells_another(new: Span, old: Span, kind: str) -> bool:
    """Whether both tell values of the type, and the newer one another.

    What repeats all that the older one told and adds to it ("on 3 May, with Lumen") is no other value, but where it
    says that something is new: "from the 3rd to the 5th".
    """
    values, had = new.values[kind], old.values.get(kind, _NOTHING)
    return bool(had) and not values <= had and (not had <= values or bool(new.change.cues & TELLING))


def _cites(new: Span, old: Span, cues: set[CueKind], clash: Sequence[str]) -> bool:
    """Whether the newer one names the older one's date to say that it is another one, or that nothing is then.

    One that tells the same time and no other says that it is so.
    """
    same = new.values.get("date", _NOTHING) & old.values.get("date", _NOTHING)
    months, had = new.values.get("month", _NOTHING), old.values.get("month", _NOTHING)
    if not same or not cues & _CHANGES:
        return False
    if months and had and months.isdisjoint(had) and len(new.values["date"]) == 1:
        return False  # the third of another month
    return "end" in cues or any(kind in clash for kind in TIMED) or "shift" in cues


def _ends_another(new: Span, old: Span, one: Reading) -> bool:
    """Whether what the newer one says is over, or who does not come, is nothing of the older one's.

    "No more bus" ends no bicycle, "I can't come" no party: it goes on without the speaker; who leaves ends nothing
    where neither he nor what he leaves is told. "That's the end of my evenings there" ends what the speaker does.
    """
    ending, aims = new.change.phrases.get("end", ""), new.change.aims
    acting = old.people.actors | old.named
    if ending.startswith("that's the end of"):
        return not (old.recurrence.comes_again and one.first_name in old.people.actors)
    if ending.endswith(" without") and not _WITHOUT.isdisjoint(old.weights):
        return True  # it was over then already, or it is the coffee maker
    if ending in _OWN_ENDS and "i" in new.written and not _is_habit_of(one.first_name, old):
        return True
    if ending in _HABITS_END and new.people.actors and new.people.actors.isdisjoint(acting):
        return True  # whoever quits smoking is nobody whom the older one tells of
    if aims.ended:
        bare_ended = [without_possessive(word) for word in aims.ended]
        is_told = any(stem(word) in old.weights for word in bare_ended)
        if ending == "no more" or is_told:
            return not is_told
        return not any(families_of(word) & old.families & ONE_VALUED for word in bare_ended)
    of_whom = aims.absent | aims.departing
    if not of_whom:
        return new.change.ending is not None and not _has_one(old, new.change.ending)
    bare = {one.first_name if word == SPEAKER else without_possessive(word) for word in of_whom}
    if bare & acting or any(stem(word) in old.weights for word in bare if word):
        return False
    return not any(families_of(word) & old.families & ONE_VALUED for word in bare - aims.absent)


def _is_habit_of(speaker: str, old: Span) -> bool:
    """Whether the older one may tell what the speaker does: he acts, or nobody in what is his or comes again."""
    return not old.once and (
        speaker in old.people.actors or (not old.people.actors and (old.people.owned or old.recurrence.comes_again))
    )


def confirms(new: Span, old: Span, seen: Evidence) -> bool:
    """Whether what the newer one calls new is what the older one told: a plan that came true.

    "We moved to Linz!" after "we're moving to Linz in June"; not "we went back to Linz". An amount of another thing
    is no other value.
    """
    others = {"name", "number", "money"} if is_of_another_amount(new.plan, old.plan) else {"name"}
    if not others.issuperset(seen.clash):
        return False
    if seen.cues <= _IS_SO and came_true(new.plan, old.plan, old.weights):
        return True
    reached = {stem(without_possessive(word)) for word in new.change.aims.reached}
    left = {stem(word) for word in old.change.left}
    return bool(reached) and reached <= old.weights.keys() and reached.isdisjoint(left)


def leaves_another(new: Span, old: Span, seen: Evidence) -> bool:
    """Whether the newer one says what it leaves ("from the gym to climbing"), and the older tells of no such.

    A time that is left is any time. A name or a place is left of the same kind, or of a subject that both tell of.
    """
    left = new.change.left
    if not left or any(stem(word) in old.weights for word in left):
        return False
    if seen.concerned and "handover" in seen.cues and old.posts.is_role:
        return False  # where my boss leaves need not have been told
    if any(families_of(word) & old.families for word in left):
        return False
    if any(word[0].isdigit() for word in left):
        return not any(kind in old.values for kind in TIMED) and not seen.clash
    return not seen.told and not seen.functional - NEED_A_SUBJECT


def of_families(term: str, families: frozenset[str]) -> bool:
    """Whether a stem is one of the families' own words."""
    return any(term in FAMILY_STEMS[family] for family in families)
