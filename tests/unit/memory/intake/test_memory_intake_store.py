from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from orion_recall.contracts import MemoryStoreV1, MemoryV1
from orion_recall.errors import RecordError
from orion_recall.memory.intake import store
from orion_recall.memory.intake.store import receive
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import StoreResult, Verdict
from orion_recall.settings import Settings
from orion_recall.values import Memory


class FakeRecord:
    """Stores everything, but calls an id that begins with `old` unchanged."""

    def __init__(self, *, away: bool = False, superseded: frozenset[tuple[str, str]] = frozenset()) -> None:
        self.memories: list[Memory] = []
        self.superseded = superseded
        self.away = away

    async def store(self, memories: Sequence[Memory]) -> StoreResult:
        if self.away:
            raise RecordError("storing memories: Postgres cannot be reached")
        self.memories.extend(memories)
        verdicts = tuple(
            Verdict(id=memory.id, status="unchanged" if memory.id.startswith("old") else "stored")
            for memory in memories
        )
        return StoreResult(verdicts=verdicts, position=7 if memories else None, superseded=self.superseded)


def payload(*memories: dict[str, Any]) -> MemoryStoreV1:
    return MemoryStoreV1.model_validate({"memories": memories})


@pytest.fixture
def settings() -> Settings:
    return Settings.read(tenants=("acme", "beta"), default_tenant="acme")


async def test_each_memory_is_judged_alone_and_in_order(settings: Settings) -> None:
    record = FakeRecord()
    receipt, _ = await receive(
        payload({"id": "a", "text": "x"}, {"id": "b", "text": 7}, {"text": "y"}, {"id": "old", "text": "z"}),
        record,
        settings,
    )
    assert [(one.id, one.status) for one in receipt.results] == [
        ("a", "stored"), ("b", "rejected"), (None, "rejected"), ("old", "unchanged"),
    ]  # fmt: skip
    assert (receipt.stored, receipt.unchanged, receipt.conflict, receipt.rejected) == (1, 1, 0, 2)
    assert receipt.position == 7
    assert "memories.1.text" in str(receipt.results[1].reason)
    assert "memories.2.id" in str(receipt.results[2].reason)
    assert [memory.id for memory in record.memories] == ["a", "old"]


async def test_a_tenant_that_is_not_served_is_rejected(settings: Settings) -> None:
    record = FakeRecord()
    receipt, _ = await receive(
        payload({"id": "a", "text": "x", "tenant": "other"}, {"id": "b", "text": "x", "tenant": "beta"}),
        record,
        settings,
    )
    assert [one.status for one in receipt.results] == ["rejected", "stored"]
    assert "'other'" in str(receipt.results[0].reason)
    assert [memory.tenant for memory in record.memories] == ["beta"]


async def test_a_naive_time_is_rejected_with_the_field(settings: Settings) -> None:
    receipt, _ = await receive(
        payload({"id": "a", "text": "x", "occurred_at": "2026-01-01T10:00:00"}), FakeRecord(), settings
    )
    assert "occurred_at" in str(receipt.results[0].reason)
    assert receipt.position is None


async def test_what_was_superseded_is_told_with_the_receipt(settings: Settings) -> None:
    record = FakeRecord(superseded=frozenset({("beta", "old")}))
    receipt, superseded = await receive(payload({"id": "a", "text": "x", "supersedes": ["old"]}), record, settings)
    assert (receipt.stored, receipt.pending, superseded) == (1, None, {("beta", "old")})


async def test_lone_surrogates_are_replaced_not_refused(settings: Settings) -> None:
    record = FakeRecord()
    receipt, _ = await receive(payload({"id": "a", "text": "x\ud800y"}), record, settings)
    assert receipt.stored == 1
    assert record.memories[0].text == "x\ufffdy"


async def test_a_record_that_is_away_is_passed_on(settings: Settings) -> None:
    with pytest.raises(RecordError):
        await receive(payload({"id": "a", "text": "x"}), FakeRecord(away=True), settings)


async def test_an_id_that_would_be_stored_as_another_is_rejected_with_the_reason(settings: Settings) -> None:
    record = FakeRecord()
    receipt, _ = await receive(
        payload({"id": "a\x00", "text": "x"}, {"id": "b", "text": "x\x00"}), record, settings
    )
    assert [one.status for one in receipt.results] == ["rejected", "stored"]
    assert "memories.0.id: a name may hold neither NUL" in str(receipt.results[0].reason)
    assert [memory.text for memory in record.memories] == ["x\ufffd"]


async def test_what_is_not_to_be_stored_is_redacted_before_it_is_composed(settings: Settings) -> None:
    record = FakeRecord()
    told = {
        "id": "ana@example.org",
        "text": "Ana is at ana@example.org, +49 30 1234567.",
        "title": "ana@example.org",
        "user_id": "ana@example.org",
        "entities": ["ana@example.org"],
        "metadata": {"from": ["ana@example.org"]},
    }
    await receive(payload(told), record, settings.changed(redact=("store:email", "render:phone")))
    (stored,) = record.memories
    assert stored.text == "Ana is at ‹e-mail address›, +49 30 1234567."
    assert stored.title == "‹e-mail address›"
    assert stored.given_entities == ("‹e-mail address›",)
    assert stored.metadata == {"from": ["‹e-mail address›"]}
    assert (stored.id, stored.user_id) == ("ana@example.org", "ana@example.org"), "by these it is found again"
    await receive(payload(told), record, settings)
    assert record.memories[1].text == told["text"], "off by default"


async def test_a_memory_that_cannot_be_read_costs_no_other(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one whose text a rule fails on."""

    def composed(message: MemoryV1, tenant: str) -> Memory:
        if message.id == "b":
            raise StopIteration(message.text)
        return compose(message, tenant)

    monkeypatch.setattr(store, "compose", composed)
    record = FakeRecord()
    told = payload({"id": "a", "text": "x"}, {"id": "b", "text": "secret"}, {"id": "c", "text": "z"})
    receipt, _ = await receive(told, record, settings)
    assert [one.status for one in receipt.results] == ["stored", "rejected", "stored"]
    assert "memories.1: it could not be read (StopIteration)" in str(receipt.results[1].reason)
    assert "composed" in caplog.text and "secret" not in caplog.text
