"""The systems of the analysis of retrieval: synthetic turns, kinds of questions, tables and targets."""

from __future__ import annotations

from dataclasses import replace

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.systems import (
    NOW,
    SYSTEMS,
    TENANT,
    AtSize,
    Latency,
    Quality,
    comparative_table,
    in_other_words,
    misses,
    new_questions,
    quality_table,
    scaling_table,
    synthetic_turns,
)
from tests.samples.evaluation_samples import judged_query
from tests.samples.source_samples import TENANT as OF_SAMPLES
from tests.samples.source_samples import memory

TURNS = [
    memory("boat", "Bo sold the vessel.", speaker="Bo"),
    memory("crane", "The crane is repaired.", speaker="Ana"),
]


def asked(text: str, *evidence: str) -> JudgedQuery:
    return JudgedQuery(
        id=text,
        conversation=OF_SAMPLES,
        text=text,
        category="any",
        evidence=frozenset(evidence),
        asked_at=None,
        scored=True,
        line=1,
    )


def test_a_question_in_other_words_shares_none_with_any_of_its_evidence() -> None:
    queries = [
        asked("Who got rid of a boat?", "boat"),
        asked("Which vessel?", "boat"),
        asked("What did Ana tell?", "crane"),
        asked("Which vessel?", "crane"),
        asked("Which vessel?", "crane", "boat"),
    ]
    assert in_other_words(queries, TURNS) == [queries[0], queries[3]]


REAL = [
    memory("a", "The harbour crane needs a new gearbox.", speaker="Ana"),
    memory("b", "Bo sold the old boat in May.", speaker="Bo"),
]
ASKED = [replace(judged_query("q", "b"), text="Who sold the boat?")]


def test_turns_are_of_the_words_of_real_ones_and_the_same_again() -> None:
    made = synthetic_turns(REAL, 45)
    words = {word for one in REAL for word in one.text.split()}
    assert {word for turn in made for word in turn.text.split()} <= words
    assert [turn.session_id for turn in made[::20]] == ["s0", "s1", "s2"]
    assert [turn.occurred_at for turn in made[-2:]] == [NOW - 60.0, NOW]
    assert [turn.id for turn in made] == [f"t{number}" for number in range(45)]
    assert synthetic_turns(REAL, 45) == made
    assert synthetic_turns(REAL, 5, first=40)[0].text == made[40].text


def test_questions_differ_from_one_measurement_to_the_next() -> None:
    one, other = (new_questions(ASKED, REAL, 20, what=what) for what in ("one", "other"))
    assert {each.conversation for each in one} == {TENANT}
    assert [each.text for each in one] != [each.text for each in other]
    assert all(each.text.startswith("Who sold the boat ") for each in one)


FAST: Latency = {"p50": 1.0, "p95": 2.0, "p99": 3.0}
MEANS = {"precision@5": 0.2, "recall@5": 0.5, "mrr": 1.0, "map": 0.25}
FOUND = [
    Quality(name=one.name, label=one.label, queries=9, means=MEANS, temporal=0.5, other_words=None)
    for one in SYSTEMS
] + [Quality(name="mine.v1", label="mine.v1", queries=9, means=MEANS, temporal=0.75, other_words=0.125)]
AT = AtSize(
    turns=1_000,
    searches={one.name: FAST for one in SYSTEMS},
    recalls={"mine.v1": {**FAST, "p95": 400.0}},
    memory_operation=FAST,
    bytes_held={"like": 90_000, "bm25_decay": 100_000, "vector": 1_536_000, "rrf": 1_636_000},
    disk_bytes=30_000_000,
)


def test_quality_is_a_row_a_system() -> None:
    made = quality_table(FOUND)
    assert made.columns == ("system", "precision@5", "recall@5", "mrr", "map")
    assert made.rows[0] == ("LIKE", ".200", ".500", "1.000", ".250")
    assert [row[0] for row in made.rows] == [one.label for one in FOUND]
    assert made.markdown().splitlines()[2:4] == ["| " + " | ".join(made.columns) + " |", "|" + " --- |" * 5]


def test_the_comparison_is_a_column_a_system_of_what_was_measured() -> None:
    rows = {row[0]: row[1:] for row in comparative_table(FOUND, [replace(AT, turns=100), AT]).rows}
    assert rows["latency P95, 1,000 turns"] == ("2.0 ms",) * 4 + ("400 ms",)
    assert rows["held per 1,000 turns"] == ("90 kB", "100 kB", "1,536 kB", "1,636 kB", "30,000 kB on disk")
    assert rows["recall@5, no word in common"] == ("-", "-", "-", "-", ".125")
    assert "latency P50, 100 turns" in {row[0] for row in comparative_table(FOUND, [replace(AT, turns=100)]).rows}
    assert all(row[0].startswith("recall@5") for row in comparative_table(FOUND, []).rows)


def test_a_p95_above_its_target_is_marked_and_told() -> None:
    slow = {**FAST, "p95": 15.5}
    large = replace(
        AT,
        turns=10_000,
        searches={**AT.searches, "bm25_decay": slow, "vector": slow, "rrf": {**slow, "p95": 900.0}},
        memory_operation={**FAST, "p95": 50.0},
    )
    made = scaling_table([AT, large])
    assert made.columns[2] == "BM25 with decay (target 15 ms)"
    assert made.rows[1][:4] == ("10,000", "2.0 ms", "15.5 ms, missed", "15.5 ms")
    assert misses([AT, large]) == {"BM25 with decay": [10_000]}
    assert misses([replace(AT, recalls={"mine.v1": {**FAST, "p95": 501.0}})]) == {"mine.v1, whole recall": [1_000]}
