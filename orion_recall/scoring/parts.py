"""Score parts: the one table of their names, default weights, words and makers.

A profile's section `ranking`, the explanation of an answer and the reference pages read this table. A new part is
one entry here, and the function in `part_values` that makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orion_recall.scoring import part_values as make
from orion_recall.scoring.part_values import Column, Pair, PartInputs, QueryFacts, part_inputs

Made = Literal["always", "where it applies", "by another step"]
"""When a part is made: for every candidate; where question or candidates give reason to; from what another step of
the recall found out. Parts are made in this order, and within it in the order of the table."""
_ORDER: tuple[Made, ...] = ("always", "where it applies", "by another step")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePart:
    """One part: its name, its default weight and its maker, which gives None where no candidate has the part.

    `measures` says what it is a weight of, `reason` what an explanation calls it. With `needs_weight` it is not
    made where its weight is 0. `without` says what is not done at all then. `is_relevance`: it says how well the
    memory fits the question."""

    name: str
    measures: str
    reason: str
    maker: Callable[[PartInputs], Column | None]
    weight: float = 0.0
    made: Made = "where it applies"
    needs_weight: bool = False
    without: str = ""
    is_relevance: bool = True

    @property
    def description(self) -> str:
        """The description of the profile's key."""
        relevance = ", a relevance part" if self.is_relevance else ""
        return f"Weight of {self.measures}{relevance} (no unit){f'; 0: {self.without}' if self.without else ''}."


PARTS: tuple[ScorePart, ...] = (
    ScorePart(
        name="fusion",
        weight=0.7,
        measures="the fused score",
        reason="what the sources found",
        maker=make.fusion,
        made="always",
    ),
    ScorePart(
        name="similarity",
        weight=0.2,
        measures="the cosine similarity",
        reason="its meaning",
        maker=make.similarity,
        made="always",
    ),
    ScorePart(
        name="neighbour",
        measures="the closer of the turns beside the memory",
        reason="the turn beside it",
        maker=make.neighbour,
        made="always",
    ),
    ScorePart(
        name="late",
        measures="late interaction, query's words against memory's",
        reason="how each word of the question is met",
        maker=make.late,
        made="by another step",
    ),
    ScorePart(
        name="newer",
        measures="'no newer memory that is about as near has the same words of the query'",
        reason="being the newest on it",
        maker=make.newer,
        needs_weight=True,
        is_relevance=False,
    ),
    ScorePart(
        name="identifiers",
        measures="the share of the query's numbers and single letters that the memory has",
        reason="the numbers and letters of the question",
        maker=make.identifiers,
        needs_weight=True,
    ),
    ScorePart(
        name="speaker",
        measures="'the query names this memory's speaker'",
        reason="who said it",
        maker=make.speaker,
    ),
    ScorePart(
        name="asker",
        measures="'the query speaks of me, and the memory was said by me or names me'",
        reason="being said by the one who asks, or to them",
        maker=make.asker,
        needs_weight=True,
    ),
    ScorePart(
        name="role",
        measures="'the query speaks of me, and a person said the memory, no assistant'",
        reason="being said by a person",
        maker=make.role,
        needs_weight=True,
    ),
    ScorePart(
        name="time",
        measures="'the memory is of the time that the query names'",
        reason="when it was said, or a time that it names",
        maker=make.time,
    ),
    ScorePart(
        name="time_proximity",
        measures="'how close the memory is to the time that the query names', 1 inside it",
        reason="being close to the named time",
        maker=make.proximity,
        needs_weight=True,
    ),
    ScorePart(
        name="told",
        measures="'the memory tells of the time that the query is about'",
        reason="a time that it names",
        maker=make.told,
        needs_weight=True,
    ),
    ScorePart(
        name="tells_time",
        measures="'the query asks when, the memory tells a time'",
        reason="naming a time",
        maker=make.time_told,
        needs_weight=True,
    ),
    ScorePart(
        name="asks_nothing",
        measures="'the memory asks no question'",
        reason="not asking itself",
        maker=make.no_question,
        needs_weight=True,
    ),
    ScorePart(
        name="words",
        measures="the keyword score, stretched over the candidates",
        reason="its words",
        maker=make.keyword_score,
        needs_weight=True,
    ),
    ScorePart(
        name="meaning",
        measures="the cosine, stretched over the candidates",
        reason="its meaning",
        maker=make.stretched_cosine,
        needs_weight=True,
    ),
    ScorePart(
        name="session",
        measures="how well the best of the memory's session was found",
        reason="how well it, or the best of its session, was found",
        maker=make.session,
        needs_weight=True,
    ),
    ScorePart(
        name="after_question",
        measures="'the turn before the memory is a question'",
        reason="coming after a question",
        maker=make.after_question,
        needs_weight=True,
    ),
    ScorePart(
        name="first_person",
        measures="'the memory speaks in the first person'",
        reason="being told in the first person",
        maker=make.first_person,
        needs_weight=True,
    ),
    ScorePart(
        name="links",
        measures="'the question or one of the first memories names this memory's title'",
        reason="being named by the first hits",
        maker=make.links,
        made="by another step",
        without="titles are not looked for",
    ),
    ScorePart(
        name="second_step",
        measures="a second search by keywords, with what the first memories name",
        reason="the second search",
        maker=make.second_step,
        made="by another step",
        without="there is none",
    ),
    ScorePart(
        name="path",
        measures="'the path of a chain or another walk rests on the memory' (`graph.paths`, `graph.traverse`)",
        reason="its path in the graph",
        maker=make.path,
    ),
    ScorePart(
        name="overlap",
        measures="the share of the question's entities that the memory or its statements hold",
        reason="what it names of the question",
        maker=make.overlap,
        needs_weight=True,
    ),
    ScorePart(
        name="evidence",
        measures="how often the memory's statements are stated, log2(1 + n) / 5, at most 1",
        reason="the evidence for it",
        maker=make.evidence,
        made="by another step",
        without="the graph is not asked",
        needs_weight=True,
    ),
    ScorePart(
        name="recency",
        weight=0.1,
        measures="recency, 0.5^(age / half-life) never below `recency_floor`",
        reason="being newer",
        maker=make.recency_column,
        made="always",
        is_relevance=False,
    ),
)
LATER_PARTS: Mapping[str, tuple[str, str]] = {
    "rerank": ("rerank.weight", "the reranker"),
    "confidence": ("cascade.merge.confidence", "its confidence"),
    "layer": ("cascade.merge.layer", "the weight of its layer"),
    "score": ("cascade.merge.score", "how it ranks among all layers' items"),
}
"""Parts that are not of the section `ranking`, but added to a score by a reranker or when layers are merged: the
profile key of the weight, and what an explanation calls it."""
REASONS: Mapping[str, str] = {
    **{part.name: part.reason for part in PARTS},
    **{name: reason for name, (_, reason) in LATER_PARTS.items()},
}
_IN_ORDER = tuple(sorted(PARTS, key=lambda part: _ORDER.index(part.made)))


def part_columns(
    candidates: Sequence[Pair],
    facts: QueryFacts,
    weights: Mapping[str, float],
    *,
    half_life_hours: float,
    recency_minimum: float,
) -> dict[str, Column]:
    """A column for every part that any candidate has, by name; `weights` are those of the profile's `ranking`."""
    if not candidates:
        return {}
    given = part_inputs(
        candidates,
        facts,
        weights,
        half_life_hours=half_life_hours,
        recency_minimum=recency_minimum,
    )
    columns: dict[str, Column] = {}
    for part in _IN_ORDER:
        if part.needs_weight and not weights[part.name]:
            continue
        if (column := part.maker(given)) is not None:
            columns[part.name] = column
    return columns
