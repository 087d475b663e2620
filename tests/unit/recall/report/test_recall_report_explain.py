from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.ranking.score import combine
from orion_recall.recall.report.explain import MOST_OTHERS, MOST_RANKED, apportioned, explained, score_shares
from orion_recall.recall.types import Recalled
from orion_recall.scoring.candidates import ScoredCandidate
from tests.samples.layered import LayeredSource, asked, cascading, of_kind
from tests.samples.recall_fakes import NOW, FakeSource, Speakers, hit, profile, query, scored, sources, view

CRANE = view("m1", "The harbour crane needs a gearbox.", ts=NOW - 3600, speaker="Bo", session_id="s1")
COPY = view("m2", "the harbour crane needs a GEARBOX", ts=NOW - 7200)
ORDER = view("m3", "I ordered it at Fjord Labs.", ts=NOW - 1800, speaker="Ana", session_id="s1", kind="plan")
SHED = view("m4", "The shed is painted.", session_id="s2")
TURN = view("m5", "what about the crane?", ts=NOW, session_id="s1")
ALL = (CRANE, COPY, ORDER, SHED, TURN)
HITS = tuple(hit(memory.id, 0.9 - place / 10) for place, memory in enumerate(ALL))


async def told(tokens: TokenCounter, by: Profile | None = None, **fields: Any) -> dict[str, Any]:
    """The trace, as its JSON is read."""
    arms = [
        FakeSource("vector", HITS),
        FakeSource("rdf", (hit("m3", 2.0, statements=("Ana ordered gearbox",)),)),
    ]
    made = sources(tokens, arms, *ALL, lexicon=Speakers("Ana", "Bo"))
    recalled = await recall(query(session_id="s1", **fields), by or profile(), made, now=NOW)
    return json.loads(json.dumps(explained(recalled)))


def of(trace: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = [one for one in trace["candidates"] if one["id"] == name]
    return one


class _Judge:
    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [0.25 for _ in texts]


async def test_the_scores_of_rank_fusion_and_cross_encoder_are_named(tokens: TokenCounter):
    """`rrf_score` is not divided by the best; who was not judged has no `cross_encoder_score`."""
    arms = [FakeSource("vector", HITS), FakeSource("rdf", (hit("m3", 2.0),))]
    by = profile(rerank={"enabled": True, "top_n": 1, "timeout_ms": 5000})
    recalled = await recall(query(), by, sources(tokens, arms, *ALL, reranker=_Judge()), now=NOW, timeout_s=5)
    trace = json.loads(json.dumps(explained(recalled)))
    assert of(trace, "m3")["rrf_score"] == pytest.approx(1 / 63 + 0.5 / 61, abs=1e-6)
    judged = [one["cross_encoder_score"] for one in trace["candidates"] if "cross_encoder_score" in one]
    assert judged == [0.25]


async def test_every_candidate_has_its_sources_with_rank_and_score(tokens: TokenCounter):
    trace = await told(tokens)
    assert of(trace, "m1")["sources"] == {"vector": {"rank": 1, "score": 0.9}}
    order = of(trace, "m3")
    assert order["sources"] == {"vector": {"rank": 3, "score": 0.7}, "rdf": {"rank": 1, "score": 2.0}}
    assert order["statements"] == ["Ana ordered gearbox"]
    assert (order["kind"], order["speaker"], order["ts"]) == ("plan", "Ana", NOW - 1800)
    assert order["text"] == "I ordered it at Fjord Labs."


async def test_what_was_dropped_says_why_and_in_whose_favour(tokens: TokenCounter):
    by = profile(max_total_items=1, near_duplicate_similarity=0.9)
    trace = await told(tokens, by, options={"exclude": ["m4"]})
    reasons = {one["id"]: one["dropped"] for one in trace["candidates"]}
    assert reasons == {
        "m3": None,
        "m1": {"reason": "max_total_items", "for": None},
        "m2": {"reason": "near_duplicate", "for": "m1"},
        "m4": {"reason": "excluded", "for": None},
        "m5": {"reason": "own_turn", "for": None},
    }
    assert [(one["id"], one.get("place")) for one in trace["candidates"]] == [
        ("m3", 1), ("m1", 2), ("m2", None), ("m4", None), ("m5", None),
    ]  # fmt: skip
    assert of(trace, "m2")["score"] is not None
    assert of(trace, "m4")["score"] is None


async def test_of_what_the_query_may_not_see_nothing_is_told(tokens: TokenCounter):
    trace = await told(tokens, options={"kinds": ["plan"]})
    assert [one["id"] for one in trace["candidates"]] == ["m3"]
    assert "gearbox" not in json.dumps([one["text"] for one in trace["candidates"]])


async def test_too_low_a_score_is_told_with_the_score(tokens: TokenCounter):
    trace = await told(tokens, options={"min_score": 0.8})
    low = [one for one in trace["candidates"] if one["dropped"] and one["dropped"]["reason"] == "below_min_score"]
    assert low
    assert all(one["score"] < 0.8 for one in low)


async def test_what_was_searched_for_is_told(tokens: TokenCounter):
    trace = await told(tokens, fragment="what did Ana order last week?")
    assert trace["searched"]["named_speaker"] == "Ana"
    assert trace["searched"]["by_meaning"] == "what did order?"
    assert trace["searched"]["by_words"].startswith("what did Ana order?")
    assert trace["understood"]["time"]["intervals"][0]["words"] == "last week"
    assert trace["zone"] == "UTC"
    zoned = await told(tokens, fragment="what did Ana order last week?", options={"timezone": "Europe/Amsterdam"})
    assert zoned["zone"] == "Europe/Amsterdam"


async def test_what_somebody_said_is_ranked_among_that_persons_words(tokens: TokenCounter):
    trace = await told(tokens, fragment="what did Ana say about the gearbox?")
    assert trace["understood"]["said_by"]["speakers"] == ["Ana"]
    assert any("by meaning among what Ana said" in why for why in trace["why"])


async def test_the_number_of_candidates_is_bounded_and_the_rest_counted(tokens: TokenCounter):
    memories = [view(f"m{n}", f"{n} boats and {n * 7} cranes") for n in range(100)]
    hits = [hit(f"m{n}", 1.0 - n / 200) for n in range(100)]
    made = sources(tokens, [FakeSource("vector", hits)], *memories)
    options = {"exclude": [f"m{n}" for n in range(60, 100)]}
    recalled = await recall(query(options=options), profile(rank_pool=100), made, now=NOW)
    trace = explained(recalled)
    assert len(trace["candidates"]) == MOST_RANKED + MOST_OTHERS
    assert trace["not_listed"] == 100 - MOST_RANKED - MOST_OTHERS


async def test_merged_items_show_the_score_that_they_had_before(tokens: TokenCounter):
    (fact,), (episode,) = of_kind("world", "fact"), of_kind("experience", "episode")
    recalled, _ = await asked(tokens, {fact: 0.2, episode: 0.9}, cascading(threshold=0.7))
    trace = explained(recalled)
    first = of(trace, "episode")
    assert first["layer"] == "episodic"
    assert {part["part"] for part in first["parts"]} == {"confidence", "layer", "recency"}
    assert {part["part"] for part in first["before_merge"]["parts"]} == {
        "fusion",
        "similarity",
        "neighbour",
        "recency",
    }
    assert first["before_merge"]["score"] > first["score"]
    assert trace["cascade"]["primary_layer"] == "semantic"


async def test_a_withheld_answer_still_shows_its_candidates(tokens: TokenCounter):
    trace = await told(tokens, profile(no_answer={"min_confidence": 1.0}))
    assert trace["why"] == []
    assert of(trace, "m1")["dropped"] == {"reason": "no_answer", "for": None}


def item(parts: dict[str, float], weights: dict[str, float]) -> ScoredCandidate:
    plain = scored("m")
    return ScoredCandidate(
        candidate=plain.candidate, memory=plain.memory, score=combine(parts, weights), parts=parts, weights=weights
    )


def test_a_worked_score():
    weights = {"fusion": 0.6, "similarity": 0.2, "recency": 0.2}
    parts = score_shares(item({"fusion": 1.0, "similarity": 0.5, "recency": 0.25}, weights))
    assert [(part.name, part.value, part.weight, part.share) for part in parts] == [
        ("fusion", 1.0, 0.6, 0.6), ("similarity", 0.5, 0.2, 0.1), ("recency", 0.25, 0.2, 0.05),
    ]  # fmt: skip


def test_thirds_are_rounded_so_that_they_make_a_whole():
    shares = [part.share for part in score_shares(item(dict.fromkeys("abc", 1.0), dict.fromkeys("abc", 1.0)))]
    assert sorted(shares) == [0.333333, 0.333333, 0.333334]
    assert apportioned([1 / 3, 1 / 3, 1 / 3], 1.0, 2) == [0.34, 0.33, 0.33]
    assert apportioned([], 0.0, 3) == []
    assert apportioned([0.2, 0.1], 0.299, 3) == [0.2, 0.099]
    assert apportioned([0.3, 0.542905], 0.842905, 5) == [0.3, 0.54291], "as the score itself is printed"


PARTS = ("fusion", "similarity", "neighbour", "recency", "speaker", "time")


@given(
    st.dictionaries(st.sampled_from(PARTS), st.floats(0, 1)),
    st.fixed_dictionaries({name: st.just(0.0) | st.floats(1e-6, 100) for name in PARTS}),
    st.integers(2, 6),
)
@example({"fusion": 1.0}, dict.fromkeys(PARTS, 0.0), 3)
def test_the_shares_add_up_to_the_printed_score(parts: dict[str, float], weights: dict[str, float], digits: int):
    made = item(parts, weights)
    shares = [part.share for part in score_shares(made)]
    assert round(sum(shares), 6) == made.score
    assert all(-1e-6 <= share <= made.score + 1e-6 for share in shares)
    printed = apportioned(shares, made.score, digits)
    assert round(sum(printed), digits) == round(made.score, digits)
    assert all(abs(share - shown) <= 10**-digits + 1e-9 for share, shown in zip(shares, printed, strict=True))


@given(
    nears=st.lists(st.sampled_from([0.0, 0.2, 0.55, 0.9]), max_size=8),
    fragment=st.sampled_from(["what about the crane?", "when did Bo paint it last week?", "what did Ana paint?"]),
    cascades=st.booleans(),
)
async def test_the_shares_of_every_candidate_of_a_recall_add_up(
    tokens: TokenCounter, nears: list[float], fragment: str, cascades: bool
):
    kinds, speakers = ("world", "experience", "procedure"), ("Ana", "Bo", None)
    memories = {
        view(f"m{n}", f"{n} cranes", kind=kinds[n % 3], speaker=speakers[n % 3], ts=NOW - n * 1e5): near
        for n, near in enumerate(nears)
    }
    arms = [LayeredSource(name, memories.items()) for name in ("vector", "rdf")]
    made = sources(tokens, arms, *memories, lexicon=Speakers("Ana", "Bo"))  # pyright: ignore[reportArgumentType]
    weights = {"fusion": 0.5, "neighbour": 0.3, "speaker": 0.15, "time": 0.4, "tells_time": 0.2, "recency": 0.05}
    by = profile(ranking=weights, cascade={"enabled": cascades, "threshold": 0.9})
    recalled: Recalled = await recall(query(fragment), by, made, now=NOW)
    candidates = explained(recalled)["candidates"]
    assert len(candidates) == len(memories)
    for one in candidates:
        for part in (one, one.get("before_merge", one)):
            if part["score"] is None:  # it was not merged
                continue
            assert round(sum(share["share"] for share in part["parts"]), 6) == part["score"]
    items = {one["id"]: one["score"] for one in candidates if one["kept"]}
    assert items == {kept.scored.memory.id: kept.scored.score for kept in recalled.selection.items}
