from __future__ import annotations

from orion_recall.serving.observe.heartbeat_fields import (
    CopyState,
    StoreState,
    copies_of,
    health_fields,
    stores_of,
)

WELL = StoreState(arm="vector", store="", health="ok", required=True)
COPY = CopyState(kind="index", copy="node:/data", behind=3)


def test_what_is_written_is_read() -> None:
    ill = StoreState(arm="rdf", store="wiki", health="failing", required=False, why="no answer within 3 s")
    fields = health_fields([WELL, ill], [COPY])
    assert stores_of(fields) == (WELL, ill)
    assert copies_of(fields) == (COPY,)
    assert "stores_left_out" not in fields


def test_a_card_stays_small_and_keeps_what_is_wrong() -> None:
    many = [StoreState(arm="vector", store=f"s{n}", health="ok", required=True) for n in range(500)]
    ill = StoreState(arm="vector", store="last", health="failing", required=True, why="w" * 10_000)
    fields = health_fields([*many, ill], [CopyState(kind="index", copy=None, behind=None, error="e" * 10_000)])
    stores, copies = stores_of(fields), copies_of(fields)
    assert stores is not None and copies is not None
    assert (len(stores), stores[-1].store, fields["stores_left_out"]) == (100, "last", "401")
    assert stores[-1].why == "w" * 299 + "…"
    assert len(copies[0].error or "") == 300
    assert sum(map(len, fields.values())) < 16_000
