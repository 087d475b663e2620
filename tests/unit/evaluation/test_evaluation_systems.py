"""The systems of the analysis of retrieval: the kinds of questions that they are compared by."""

from __future__ import annotations

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.systems import in_other_words
from tests.samples.source_samples import TENANT, memory

TURNS = [
    memory("boat", "Bo sold the vessel.", speaker="Bo"),
    memory("crane", "The crane is repaired.", speaker="Ana"),
]


def asked(text: str, *evidence: str) -> JudgedQuery:
    return JudgedQuery(
        id=text,
        conversation=TENANT,
        text=text,
        category="any",
        evidence=frozenset(evidence),
        asked_at=None,
        scored=True,
        line=1,
    )


def test_a_question_in_other_words_shares_none_with_any_of_its_evidence():
    queries = [
        asked("Who got rid of a boat?", "boat"),
        asked("Which vessel?", "boat"),
        asked("What did Ana tell?", "crane"),
        asked("Which vessel?", "crane"),
        asked("Which vessel?", "crane", "boat"),
    ]
    assert in_other_words(queries, TURNS) == [queries[0], queries[3]]
