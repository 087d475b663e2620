from __future__ import annotations

from dataclasses import replace

from orion_recall.evaluation.systems.latency import Latency
from orion_recall.evaluation.systems.quality import Quality
from orion_recall.evaluation.systems.registry import SYSTEMS
from orion_recall.evaluation.systems.scaling import AtSize
from orion_recall.evaluation.systems.tables import comparative_table, misses, quality_table, scaling_table

FAST = Latency(p50=1.0, p95=2.0, p99=3.0, calls=100)
MEANS = {"precision@5": 0.2, "recall@5": 0.5, "mrr": 1.0, "map": 0.25}
FOUND = [
    Quality(name=one.name, label=one.label, queries=9, means=MEANS, temporal=0.5, other_words=None)
    for one in SYSTEMS
] + [Quality(name="mine.v1", label="mine.v1", queries=9, means=MEANS, temporal=0.75, other_words=0.125)]
AT = AtSize(
    turns=1_000,
    searches={one.name: FAST for one in SYSTEMS},
    recalls={"mine.v1": replace(FAST, p95=400.0)},
    memory_operation=FAST,
    bytes_held={"like": 90_000, "bm25_decay": 100_000, "dense": 1_536_000, "pagerank": 500_000},
    disk_bytes=30_000_000,
    built_ms=120.0,
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
    assert rows["held per 1,000 turns"] == ("90 kB", "100 kB", "1,536 kB", "500 kB", "30,000 kB on disk")
    assert rows["graph built per 1,000 turns"] == ("-", "-", "-", "120 ms", "-")
    assert rows["recall@5, no word in common"] == ("-", "-", "-", "-", ".125")
    assert "latency P50, 100 turns" in {row[0] for row in comparative_table(FOUND, [replace(AT, turns=100)]).rows}
    assert all(row[0].startswith("recall@5") for row in comparative_table(FOUND, []).rows)


def test_a_p95_above_its_target_is_marked_and_told() -> None:
    slow = replace(FAST, p95=15.5)
    large = replace(
        AT,
        turns=10_000,
        searches={**AT.searches, "bm25_decay": slow, "dense": slow, "pagerank": replace(slow, p95=900.0)},
        memory_operation=replace(FAST, p95=50.0),
    )
    made = scaling_table([AT, large])
    assert made.columns[2] == "BM25 with decay (target 15 ms)"
    assert made.rows[1][:4] == ("10,000", "2.0 ms", "15.5 ms, missed", "15.5 ms")
    assert misses([AT, large]) == {"BM25 with decay": [10_000]}
    assert misses([replace(AT, recalls={"mine.v1": replace(FAST, p95=501.0)})]) == {"mine.v1": [1_000]}
