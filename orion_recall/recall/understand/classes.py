"""The class of a question, one of seven, and the words that decide it.

classify(words("How should we staff the Christmas peak?"), NO_TIME) -> planning, ("how should",)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orion_recall.text.normal import without_possessive
from orion_recall.values import NO_TIME, QUERY_CLASSES, QueryClass, QuestionTime
from orion_recall.when.times import ordinal

# Of classes for which as much is said, the first: the more special the question, the more it needs.
_PRECEDENCE: tuple[QueryClass, ...] = ("meta", "procedural", "planning", "prospective", "temporal", "relational")
_LEAST = 2
_MOST_WORDS = 300
_ASKS_WHEN, _NAMES_TIME, _LIES_AHEAD, _LOOKS_AHEAD, _ROLE = 4, 2, 1, 3, 2
_DETERMINERS = frozenset("the a an his her its their our my your this that whose".split())
_BE = frozenset("is are was were be".split())
_SHORT_IS = frozenset("it that what who where how there he she let".split())  # "what's", "he's"
_ROLES = """
sister sisters brother brothers sibling siblings mother father mum mom dad parent parents wife husband partner
spouse son daughter child children kid kids aunt uncle cousin cousins niece nephew grandmother grandfather
grandma grandpa grandson granddaughter stepfather stepmother boyfriend girlfriend fiance fiancé fiancee fiancée
boss manager employer employee employees colleague colleagues coworker teacher student pupil mentor neighbour
neighbor roommate friend friends owner founder founders director author inventor composer performer singer
painter publisher producer president leader mayor captain chairman chairwoman ceo spouse contact successor
predecessor in-law ancestor
"""
ROLES = frozenset(_ROLES.split())

# A line for each class and weight, phrases between bars; `_` stands for any one word. Weights: 3 says it nearly
# alone, 2 says it unless more speaks for another class, 1 only tips the balance. English only.
_ENGLISH = """
meta 3: what do _ know about | what do _ remember about | what do _ have on | what can you tell me about
meta 3: tell me everything | tell me all | everything _ know about | everything that _ know | all that _ know
meta 3: what became of | what has become of | what's new with | what is new with | any news of | any news from
meta 3: on record | on file | in the notes | in our notes | in memory | how much do _ know | how sure are
meta 3: how certain are | what is known about | what's known about | what is known of | what topics | which topics
meta 3: what have _ told you | what have i told | what have they told | have i told you | have i mentioned
meta 3: what have we talked about | what have we discussed | how many memories | which memories | what memories
meta 2: do you know anything | anything about | summarise what | summarize what | what information
procedural 3: how to | step by step | walk me through | steps to | steps for | steps are | show me how
procedural 3: instructions
procedural 3: how do i | how do we | how do you _ _ | how does one | how would i | how can i | how can we
procedural 3: how can you
procedural 2: how can one | how do people | how is it done | how is _ made | how are _ made | procedure | recipe for
procedural 2: way to | process for | process of | method for | method of | technique for | tutorial | guide to
procedural 2: which steps | what steps | checklist | workflow
procedural 1: properly | correctly | method | technique | process
planning 3: how should | what should we | what should i | should i | should we | best approach | strategy
planning 3: strategies
planning 3: roadmap | what if we | what if i | trade-off | tradeoff | would it be better | how could we
planning 3: how might we
planning 3: do you recommend | would you recommend | do you suggest | would you suggest | do you advise
planning 2: best way | would be best | planning to | plans for | plan for | plan to | plans to | planned to
planning 2: intend to | intends to
planning 2: aim to | aims to | optimise | optimize | options for | idea for | ideas for | better to
planning 1: plan | plans | goal | goals | advice | recommend | recommendation | suggestion | planning | improve
planning 1: could we | next year | approach | intention | decide whether
prospective 3: deadline | deadlines | remind me | reminders | reminded | not forget | don't forget
prospective 3: to do list | still to do | left to do | next steps | next step | is due | are due | due by | due date
prospective 3: coming up | upcoming | still need | still needs | still has to | still have to | still must
prospective 2: need to | needs to | have to | has to | must | pending | supposed to | due | open tasks | tasks
prospective 2: todo
prospective 2: next appointment | appointments | scheduled for | agenda | going to | about to | by tomorrow
prospective 1: task | reminder | will | outstanding | unfinished | promised to | wants to | expected to
temporal 3: since when | until when | how long ago | timeline | chronological | in what order | order of events
temporal 2: how long | how often | first time | last time | most recent | most recently | recently | lately
temporal 2: history of
temporal 2: how many days | how many weeks | how many months | how many years | the other day
temporal 2: for the first | these days | as of now | up to now | so far
temporal 1: what happened | before | after | while | ago | earlier | previously | since | latest | during | until
relational 3: relationship | related to | relation between | relation to | connection between | connected to
relational 3: know each other | knows each other | have in common | linked to | depends on | depend on | family tree
relational 2: works with | work with | works for | worked for | worked with | belongs to | married to | marrying
relational 2: responsible for | in charge of | reports to | who owns | who knows | know from | who introduced
relational 2: whose
relational 2: each other | get along | in touch with | part of | member of | connected with | involved in
relational 1: who is | who's | who was | who are | between | knows | met | together | related | connected
"""


class _Cue(NamedTuple):
    """A phrase with its class and weight; None stands for any word."""

    words: tuple[str | None, ...]
    query_class: QueryClass
    weight: int


def _read(text: str) -> Mapping[str, Sequence[_Cue]]:
    """The cues by their first word, the longest first."""
    found: dict[str, list[_Cue]] = {}
    for line in text.strip().splitlines():
        head, phrases = line.split(":", 1)
        name, weight = head.split()
        query_class: QueryClass = next(one for one in QUERY_CLASSES if one == name)
        for phrase in phrases.split("|"):
            said = phrase.casefold().replace("-", " ").split()
            cue = _Cue(tuple(None if word == "_" else word for word in said), query_class, int(weight))
            found.setdefault(said[0], []).append(cue)
    return {first: sorted(cues, key=lambda cue: -len(cue.words)) for first, cues in found.items()}


_CUES = _read(_ENGLISH)


class Classified(NamedTuple):
    """The class, and the words that decided it: as the question has them, folded; none for `factual`."""

    query_class: QueryClass
    words: tuple[str, ...]


FACTUAL = Classified("factual", ())


def classify(said: Sequence[str], time: QuestionTime = NO_TIME, *, now: float = 0.0) -> Classified:
    """The class with the highest weight, `factual` when no class has a weight of 2.

    `said` are the folded words of the question. What it says of `time` counts as words do; an interval that begins
    after `now` speaks for what is still to be done as well.
    """
    said = tuple(said[:_MOST_WORDS])
    weights: dict[QueryClass, int] = {}
    read_to: dict[QueryClass, int] = {}  # of a class, words that a longer cue holds count once
    reasons: dict[QueryClass, list[str]] = {}

    def note(query_class: QueryClass, weight: int, words: str) -> None:
        weights[query_class] = weights.get(query_class, 0) + weight
        reasons.setdefault(query_class, []).append(words)

    for place, word in enumerate(said):
        following = said[place + 1] if place + 1 < len(said) else None
        for cue, query_class, weight in _CUES.get(word, ()):
            if len(cue) > 1 and cue[1] not in (None, following):  # as of nearly every one
                continue
            heard = said[place : place + len(cue)]
            if read_to.get(query_class, 0) <= place and _is_said(cue, heard):
                note(query_class, weight, " ".join(heard))
                read_to[query_class] = place + len(cue)
    for place, word in enumerate(said):
        if word in ROLES and (words := _role(said, place)) is not None:
            note("relational", _ROLE, words)
    if time.asks_when:
        note("temporal", _ASKS_WHEN, "when")
    for interval in time.intervals[:1]:
        note("temporal", _NAMES_TIME, interval.words)
        if interval.start is not None and interval.start > now:
            note("prospective", _LIES_AHEAD, interval.words)
        if time.alone and time.of == "told":
            note("prospective", _LOOKS_AHEAD, interval.words)
    if time.session is not None:
        note("temporal", _NAMES_TIME, f"{ordinal(time.session)} session")
    if not weights:
        return FACTUAL
    best = max(weights, key=lambda one: (weights[one], -_PRECEDENCE.index(one)))
    if weights[best] < _LEAST:
        return FACTUAL
    return Classified(best, tuple(dict.fromkeys(reasons[best])))


def _is_said(cue: tuple[str | None, ...], heard: tuple[str, ...]) -> bool:
    if heard == cue:
        return True
    return (
        None in cue
        and len(heard) == len(cue)
        and all(wanted in (None, word) for wanted, word in zip(cue, heard, strict=True))
    )


def _role(said: Sequence[str], place: int) -> str | None:
    """ "Ana's sister", "the wife of", "who is our contact" ask for a relation; "my teacher said" does not."""
    before, first = (said[place - 1] if place else ""), (said[place - 2] if place > 1 else "")
    if (bare := without_possessive(before)) != before and bare not in _SHORT_IS:
        return f"{before} {said[place]}"
    if before in _DETERMINERS and place + 1 < len(said) and said[place + 1] == "of":
        return f"{said[place]} of"
    return f"{first} {before} {said[place]}" if before in _DETERMINERS and first in _BE else None
