from __future__ import annotations

from orion_recall.evaluation.answers.excluded import Excluded
from orion_recall.evaluation.dataset import JudgedQuery


def judged(*evidence: str, related: str = "") -> JudgedQuery:
    return JudgedQuery(
        id="q",
        conversation="c",
        text="?",
        category="none",
        evidence=frozenset(evidence),
        asked_at=None,
        scored=True,
        line=1,
        related=frozenset(related.split()),
    )


def test_evidence_what_is_related_and_the_turns_beside_them_are_left_out():
    excluded = Excluded(ids={"c": list("abcdefghij")})
    assert excluded.of(judged("b")) == tuple("abcd")
    assert excluded.of(judged("b", related="j")) == tuple("abcdhij")
    assert excluded.of(judged("unknown")) == ()
    assert Excluded(ids={}).of(judged("b")) == ()
