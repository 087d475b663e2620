"""Questions about now and scored candidates, as the last steps of a ranking see them."""

from __future__ import annotations

from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.values import AnswerType, Question, QuestionTime, Tense
from tests.samples.recall_fakes import NOW, key, view


def question(text: str, tense: Tense | None = "now", *, when: bool = False, number: bool = False) -> Question:
    """A question as it is understood, with nothing but its tense and what it asks for."""
    return Question(
        text=text,
        dense_text=text,
        keyword_text=text,
        terms=frozenset(),
        now=NOW,
        text_hash="",
        time=QuestionTime(asks_when=when),
        answer_type=AnswerType(number=number),
        tense=tense,
    )


def item(
    name: str, text: str, score: float, *, day: float, chatter: bool = False, names: tuple[str, ...] = ()
) -> ScoredCandidate:
    """A memory of Ruben's with its score; `day` counts from 10,000,000 seconds before the question."""
    memory = view(name)._replace(
        text=text, ts=NOW - 1e7 + day * 86_400, chatter=chatter, entities=names, speaker="Ruben"
    )
    return ScoredCandidate(
        candidate=Candidate(key=key(name)),
        memory=memory,
        score=score,
        parts={"fusion": score},
        weights={"fusion": 1.0},
    )
