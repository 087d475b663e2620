"""Values of the score parts: one function per part, which gives its column for all candidates of a query.

Columns are made one after another: a hundred candidates with a dozen parts take half the time that they take one by
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orion_recall.scoring.candidates import Candidate
from orion_recall.text.people.roles import names_assistant
from orion_recall.values import ANY_TYPE, NO_TIME, AnswerType, MemoryView, QuestionTime, SourceName

Pair = tuple[Candidate, MemoryView]
Column = Sequence[float | None]
"""One part of every candidate, in their order; None for a candidate without this part."""

UNDATED_RECENCY = 0.5
WHOLE_LENGTH = 200
"""Characters from which a text has the whole part `length`; of a shorter text the part grows in proportion."""
READ_CHARS = 2000
"""Characters of a text that are read for an answer, a few more than are embedded. To read whole documents would
cost a recall more than all its searches."""
ASSISTANT_SHARE = 0.2
"""The share of the candidates from which on they are a talk with an assistant. It answers every question, at length
and with names and numbers, so that these parts say who spoke rather than what answers: they are not made then."""
_NO_KEYS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """Facts of a query and its searches for the score parts; mappings are by memory key.

    `asker` is the speaker who asks, where the question is in the first person. `who` is the name in "Who is Hana?".
    `asks_assistant`: the query asks what an assistant said.
    `similarities` are the cosines of all hits of the dense search, candidate or not. `late` is the part of late
    interaction, for the memories that were compared. `followed` has the parts of the follow-up search by name.
    `unindexed` are memories that the index does not hold: where the index alone could give a part, a memory of its
    own has 0 and these have none. Texts of those in `told_unknown` were not read for told times.
    `wants_chatter`: the question is about greetings, jokes or the weather. `entities` are the names in it;
    `evidence` is how often memories' statements are stated, where that was looked up.
    """

    now: float
    named_speaker: str | None = None
    asker: str | None = None
    who: str | None = None
    asks_family: bool = False
    similarities: Mapping[int, float] = field(default_factory=dict[int, float])
    time: QuestionTime = NO_TIME
    answer_type: AnswerType = ANY_TYPE
    asks_assistant: bool = False
    session_id: str | None = None
    late: Mapping[int, float] = field(default_factory=dict[int, float])
    followed: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])
    unindexed: frozenset[int] = _NO_KEYS
    told_unknown: frozenset[int] = _NO_KEYS
    wants_chatter: bool = False
    entities: tuple[str, ...] = ()
    evidence: Mapping[int, float] = field(default_factory=dict[int, float])


@dataclass(frozen=True, slots=True)
class PartInputs:
    """The input of every part: the candidates and their memories, the query's facts, the profile's values.

    `fused` are the fused scores divided by the best. `cosines` are those of the dense search, None where it has
    none; `farthest` is the lowest of them among indexed memories. `assistants`: whether an assistant said
    each of them; `is_with_assistant`: whether they are from talk of people with an assistant."""

    candidates: Sequence[Pair]
    memories: Sequence[MemoryView]
    facts: QueryFacts
    weights: Mapping[str, float]
    half_life_hours: float
    recency_minimum: float
    fused: Sequence[float]
    cosines: Column
    farthest: float | None
    assistants: Sequence[bool]
    is_with_assistant: bool


def part_inputs(
    candidates: Sequence[Pair],
    facts: QueryFacts,
    weights: Mapping[str, float],
    *,
    half_life_hours: float,
    recency_minimum: float,
    assistants: Sequence[bool],
) -> PartInputs:
    """The inputs of all parts; there must be a candidate."""
    fused = [candidate.fused for candidate, _ in candidates]
    best = max(fused) or 1.0
    cosines = [candidate.scores.get("vector") for candidate, _ in candidates]
    unindexed = facts.unindexed
    reached = [
        cosine
        for (candidate, _), cosine in zip(candidates, cosines, strict=True)
        if cosine is not None and not (unindexed and candidate.key in unindexed)
    ]
    return PartInputs(
        candidates=candidates,
        memories=[memory for _, memory in candidates],
        facts=facts,
        weights=weights,
        half_life_hours=half_life_hours,
        recency_minimum=recency_minimum,
        fused=[score / best for score in fused],
        cosines=cosines,
        farthest=_share(min(reached)) if reached else None,
        assistants=assistants,
        is_with_assistant=is_with_assistant(assistants),
    )


def said_by_assistants(memories: Iterable[MemoryView]) -> list[bool]:
    """Of each memory whether an assistant said it."""
    return [memory.assistant or names_assistant(memory.speaker) for memory in memories]


def is_with_assistant(assistants: Sequence[bool]) -> bool:
    """Whether memories are from talk of people with an assistant, by who said each of them."""
    return bool(assistants) and ASSISTANT_SHARE <= sum(assistants) / len(assistants) < 1.0


def fusion(given: PartInputs) -> Column:
    """The fused score, 1 for the best; 0 for all where it has no weight."""
    return given.fused if given.weights["fusion"] else [0.0] * len(given.fused)


def similarity(given: PartInputs) -> Column | None:
    """The cosine. A memory that the dense search did not reach counts as the last one that it did reach."""
    if (farthest := given.farthest) is None:
        known = [None if cosine is None else _share(cosine) for cosine in given.cosines]
        return None if all(cosine is None for cosine in known) else known
    column: Column = [  # as `_share` gives it, without a call for each
        farthest if cosine is None else 0.0 if cosine < 0.0 else 1.0 if cosine > 1.0 else cosine
        for cosine in given.cosines
    ]
    return _without_unindexed(column, given, "vector")


def neighbour(given: PartInputs) -> Column | None:
    """The cosine of the closer turn beside the memory: people answer a question one turn later."""
    if (farthest := given.farthest) is None:
        return None
    similarity_of, unindexed = given.facts.similarities.get, given.facts.unindexed
    column: list[float | None] = []
    for memory in given.memories:
        closest = farthest
        for key in memory.beside:
            if (near := similarity_of(key, farthest)) > closest:
                closest = near
        column.append(closest if closest < 1.0 else 1.0)
    if unindexed:
        for place, (candidate, _) in enumerate(given.candidates):
            if candidate.key in unindexed:
                column[place] = None
    return column


def recency_column(given: PartInputs) -> Column:
    """Recency by the profile's half-life."""
    now, half_life, minimum = given.facts.now, given.half_life_hours, given.recency_minimum
    return [  # as `recency` gives it, without a call for each
        UNDATED_RECENCY
        if (ts := memory.ts) is None
        else max(minimum, 0.5 ** (((now - ts) / 3600 if ts < now else 0.0) / half_life))
        for memory in given.memories
    ]


def recency(ts: float | None, now: float, *, half_life_hours: float, minimum: float) -> float:
    """0.5 ^ (age / half-life), never below the minimum (`recency_floor`); 0.5 when undated, 1 for the future."""
    if ts is None:
        return UNDATED_RECENCY
    age_hours = max(0.0, now - ts) / 3600
    return max(minimum, 0.5 ** (age_hours / half_life_hours))


def speaker(given: PartInputs) -> Column | None:
    """1 for memories of the speaker that the question names."""
    if (named := given.facts.named_speaker) is None:
        return None
    column = [1.0 if memory.speaker == named else 0.0 for memory in given.memories]
    if not (unindexed := given.facts.unindexed):
        return column
    return [  # of a store without speakers nobody knows who said it
        None if candidate.key in unindexed and memory.speaker is None else part
        for (candidate, memory), part in zip(given.candidates, column, strict=True)
    ]


def no_question(given: PartInputs) -> Column | None:
    """1 for texts without a question mark."""
    if given.is_with_assistant:
        return None
    return [
        0.0 if "?" in (memory.best_text if memory.passages else memory.text) else 1.0 for memory in given.memories
    ]


def keyword_score(given: PartInputs) -> Column | None:
    """The keyword search's score, stretched over the candidates."""
    return _stretched([candidate.scores.get("lexical") for candidate, _ in given.candidates], given, "lexical")


def stretched_cosine(given: PartInputs) -> Column | None:
    """The cosine, stretched over the candidates."""
    return _stretched(given.cosines, given, "vector")


def session(given: PartInputs) -> Column:
    """The best fused score in the memory's session: the turns around an answer tell more.

    Where late interaction has compared a memory, the mean of both counts. Over the candidates alone: with all hits
    recall was the same on judged questions, and their sessions would have to be looked up. A memory without a
    session is a session of its own."""
    late = given.facts.late
    found = _with_late(given, late) if late else given.fused
    sessions = [memory.session_id for memory in given.memories]
    best: dict[str | None, float] = dict.fromkeys(sessions, 0.0)
    for name, score in zip(sessions, found, strict=True):
        if score > best[name]:
            best[name] = score
    return [score if name is None else best[name] for name, score in zip(sessions, found, strict=True)]


def after_question(given: PartInputs) -> Column | None:
    """1 for memories after a question in their session."""
    if given.is_with_assistant:
        return None
    return _known([1.0 if memory.after_question else 0.0 for memory in given.memories], given)


def length(given: PartInputs) -> Column:
    """The text's length, 1 from `WHOLE_LENGTH` characters on."""
    return [min(1.0, len(memory.text) / WHOLE_LENGTH) for memory in given.memories]


def first_person(given: PartInputs) -> Column:
    """1 for texts in the first person."""
    return [1.0 if memory.first_person else 0.0 for memory in given.memories]


def more_than_chatter(given: PartInputs) -> Column | None:
    """0 for chatter, 1 for any other text; no part where chatter is asked for."""
    return None if given.facts.wants_chatter else [0.0 if one.chatter else 1.0 for one in given.memories]


def path(given: PartInputs) -> Column | None:
    """How well the path of a possessive chain leads to the memory, where there is a path."""
    column = [candidate.path for candidate, _ in given.candidates]
    return _known(column, given) if any(column) else None


def late(given: PartInputs) -> Column | None:
    """Late interaction, for the memories that were compared."""
    if not (compared := given.facts.late):
        return None
    return [compared.get(candidate.key) for candidate, _ in given.candidates]


def links(given: PartInputs) -> Column | None:
    """How strongly the question or a first hit names the memory's title."""
    return _followed(given, "links")


def second_step(given: PartInputs) -> Column | None:
    """The score in the second keyword search."""
    column = _followed(given, "second_step")
    return None if column is None else _known(column, given)


def conversation(given: PartInputs) -> Column | None:
    """The memory's rank among the turns around the first hits."""
    column = _followed(given, "conversation")
    return None if column is None else _known(column, given)


def _followed(given: PartInputs, name: str) -> Sequence[float] | None:
    if (values := given.facts.followed.get(name)) is None:
        return None
    return [values.get(candidate.key, 0.0) for candidate, _ in given.candidates]


def _known(column: Sequence[float], given: PartInputs) -> Column:
    """The column, with None instead of 0 for unindexed memories: own index and graph could not find them."""
    if not (unindexed := given.facts.unindexed):
        return column
    return [
        None if not part and candidate.key in unindexed else part
        for (candidate, _), part in zip(given.candidates, column, strict=True)
    ]


def _without_unindexed(column: Column, given: PartInputs, source: SourceName) -> Column:
    """The column, with None for unindexed memories that the source has no score of."""
    if not (unindexed := given.facts.unindexed):
        return column
    return [
        None if candidate.key in unindexed and source not in candidate.scores else part
        for (candidate, _), part in zip(given.candidates, column, strict=True)
    ]


def _stretched(scores: Column, given: PartInputs, source: SourceName) -> Column | None:
    """A source's scores, stretched over the candidates to [0, 1]; None where the source found none of them."""
    found = [score for score in scores if score is not None]
    if not found:
        return None
    low, span = min(found), max(found) - min(found)
    if span <= 0:
        column = [0.0 if score is None else 1.0 for score in scores]
    else:
        column = [0.0 if score is None else (score - low) / span for score in scores]
    return _without_unindexed(column, given, source)


def _with_late(given: PartInputs, late: Mapping[int, float]) -> Sequence[float]:
    """The fused score; for memories that late interaction has compared, the mean of it and of `late`."""
    return [
        score if (near := late.get(candidate.key)) is None else (score + near) / 2
        for (candidate, _), score in zip(given.candidates, given.fused, strict=True)
    ]


def _share(value: float) -> float:
    """The value kept to [0, 1]."""
    return 0.0 if value < 0.0 else min(value, 1.0)
