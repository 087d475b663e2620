"""Spans and metrics of a running service, sent to a collector over HTTP."""

from __future__ import annotations

import json
import time

import pytest
from executor import Executor, until
from otlp_collector import collecting
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from tests.stand_ins.ports import free_port

pytestmark = pytest.mark.slow

QUESTION = {"fragment": "Who feeds the gulls?", "session_id": "s-1"}


async def test_a_recall_is_sent_as_spans_and_metrics_when_an_endpoint_is_set(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        settings = quick_settings(bus_alone.redis_url)
        executor = Executor(bus, settings.prefix)
        async with serving(settings, opened_with(OneMemory(), tokens)):
            await executor.ended(await executor.ask(QUESTION))
            store = executor.message({"memories": [{"id": "m-1", "text": "It rained."}]}, kind="memory.store.v1")
            await executor.add({"envelope": json.dumps(store)}, stream=settings.intake_streams["stores"])

            async def both_answered() -> bool:
                return len(await executor.replies(executor.reply_to)) == 2

            await until(both_answered, "a receipt")
        await executor.close()
        # Stopping has sent what was left.
        assert sorted(collector.span_names()) == sorted(
            ["store", "recall", "recall.source.vector"]
            + [
                f"recall.{stage}"
                for stage in ("understand", "search", "fuse", "fetch", "compare", "rank", "select")
            ]
        )
        recall = collector.attributes("recall")
        assert (recall["gen_ai.operation.name"], recall["openinference.span.kind"]) == (
            "search_memory",
            "RETRIEVER",
        )
        assert (recall["gen_ai.memory.record.count"], recall["gen_ai.conversation.id"]) == (1, "s-1")
        assert recall["gen_ai.memory.store.id"] == recall["orion.recall.tenant"] == "default"
        source = collector.attributes("recall.source.vector")
        assert (source["gen_ai.operation.name"], source["gen_ai.data_source.id"]) == ("retrieval", "vector")
        # This worker has no record: nothing is stored.
        store = collector.attributes("store")
        assert (store["gen_ai.operation.name"], store["gen_ai.memory.record.count"]) == ("create_memory", 0)
        assert {"orion.recall.recalls", "orion.recall.stage.duration", "orion.recall.in_hand"} <= (
            collector.metric_names()
        )
        assert not any(b"gulls" in body or b"rained" in body for _, body in collector.posted)


async def test_a_collector_that_is_away_keeps_nobody_waiting(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.serving.observe.observer._FLUSH_S", 0.5)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    settings = quick_settings(bus_alone.redis_url)
    executor = Executor(bus, settings.prefix)
    async with serving(settings, opened_with(OneMemory(), tokens)) as (service, task):
        assert (await executor.ended(await executor.ask(QUESTION))).decision["outcome"] == "ok"
        service.stop()
        await task
        stopped = time.monotonic()
    assert time.monotonic() - stopped < 30
    await executor.close()
