from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from orion_recall.console.scores import score_parts
from orion_recall.contracts import CandidateV1, RecallDecisionV1
from orion_recall.contracts.decision import SelectedV1
from orion_recall.profile import Profile
from orion_recall.profile.reading import load_profiles
from orion_recall.recall.ranking.score import combine
from orion_recall.recall.report.explain import score_shares
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.shipped import shipped_folder
from tests.samples.recall_fakes import key, view

PARTS = {"late": 0.8, "fusion": 1.0, "first_person": 0.5, "session": 0.6}


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profiles(shipped_folder("profiles"))["reflect.v1"]


def scored(name: str, profile: Profile, *, time_decides: bool = False, **changes: float) -> ScoredCandidate:
    weights = profile.weights(reranked=False, time_decides=time_decides)
    parts = {**PARTS, **changes}
    candidate = Candidate(key=key(name), scores={"vector": 0.5})
    return ScoredCandidate(
        candidate=candidate, memory=view(name), score=combine(parts, weights), parts=parts, weights=weights
    )


def logged(items: Sequence[ScoredCandidate]) -> RecallDecisionV1:
    """The decision on these, as the log has it: with rounded parts, without their weights."""
    return RecallDecisionV1(
        id="d-1",
        corr_id="c-1",
        session_id=None,
        node_id="athena",
        verb="reflect",
        profile="reflect.v1",
        query="Where does Ida live?",
        selected_ids=[one.memory.id for one in items],
        backend_counts={},
        latency_ms=1,
        dropped={},
        created_at=datetime(2026, 11, 25, tzinfo=UTC),
        outcome="ok",
        selected=[
            SelectedV1(
                id=one.memory.id,
                source="vector",
                score=one.score,
                parts={name: round(value, 6) for name, value in one.parts.items()},
                ranks={"vector": 1},
            )
            for one in items
        ],
    )


def shares(items: Sequence[ScoredCandidate], profile: Profile | None) -> dict[str, float | None]:
    """The shares of the first of the items, by its parts."""
    decision = logged(items)
    return {part.name: part.share for part in score_parts(decision.selected[0], decision, profile)}


def explained(item: ScoredCandidate) -> dict[str, float]:
    candidate = CandidateV1(
        id=item.memory.id,
        source="vector",
        ranks={},
        fused=0.0,
        score=item.score,
        parts=dict(item.parts),
        weights={name: item.weights[name] for name in item.parts},
    )
    return {part["part"]: part["share"] for part in score_shares(candidate)}


@pytest.mark.parametrize("time_decides", [False, True])
def test_the_shares_are_those_of_the_explanation_and_add_up_to_the_score(
    profile: Profile, *, time_decides: bool
) -> None:
    item = scored("new", profile, time_decides=time_decides, time=0.3)
    told = shares([item], profile)
    assert told == pytest.approx(explained(item), abs=1e-5)
    assert sum(share or 0.0 for share in told.values()) == pytest.approx(item.score, abs=1e-5)


def test_the_weights_of_asking_again_are_taken_if_the_score_is_the_same(profile: Profile) -> None:
    item = scored("new", profile)
    item = replace(item, weights=dict.fromkeys(item.parts, 1.0), score=sum(PARTS.values()) / len(PARTS))
    decision = logged([item])
    again = CandidateV1(
        id="new",
        source="vector",
        ranks={},
        fused=1.0,
        score=item.score,
        parts=dict(item.parts),
        weights=dict(item.weights),
    )
    told = score_parts(decision.selected[0], decision, profile, [again])
    assert {part.name: part.share for part in told} == pytest.approx(explained(item), abs=1e-5)


def test_a_score_that_the_weights_do_not_give_has_no_shares(profile: Profile) -> None:
    item = scored("merged", profile)
    other = ScoredCandidate(
        candidate=item.candidate,
        memory=item.memory,
        score=item.score / 2,
        parts=item.parts,
        weights=item.weights,
    )
    assert set(shares([other], profile).values()) == {None}
    assert set(shares([item], None).values()) == {None}
