from __future__ import annotations

from orion_recall.errors import ModelError
from orion_recall.serving.observe.heartbeat_fields import (
    CopyState,
    StoreState,
    copies_of,
    health_fields,
    model_fields,
    stores_of,
)
from tests.samples.source_samples import FormsEmbedder, HashingEmbedder

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


def test_a_card_that_says_nothing_or_something_else_is_not_taken_for_well() -> None:
    assert stores_of({"node": "n"}) is None
    assert copies_of({"copies": "[1]"}) is None
    assert stores_of({"stores": '[{"arm": "vector"}]'}) is None


def test_the_model_is_told_and_why_it_has_another_form() -> None:
    assert model_fields(HashingEmbedder("words")) == {"model": "words"}
    embedder = FormsEmbedder()
    assert model_fields(embedder) == {"model": "forms"}
    embedder.form_note = "w" * 1_000
    assert model_fields(embedder) == {"model": "forms", "model_note": "w" * 299 + "…"}


def test_while_the_embedding_server_is_away_no_model_is_told() -> None:
    class Away(HashingEmbedder):
        @property
        def name(self) -> str:
            raise ModelError("the server is away")

        @name.setter
        def name(self, value: str) -> None: ...

    assert model_fields(Away()) == {}
