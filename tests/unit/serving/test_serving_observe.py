"""What a worker shows: health port, metrics, spans, heartbeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from http import HTTPStatus

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from orion_recall.contracts import RecallQueryV1
from orion_recall.errors import SettingsError
from orion_recall.recall.bundle.select import SelectedItem, Selection
from orion_recall.recall.pipeline import Recalled
from orion_recall.recall.report.decision import RequestFacts
from orion_recall.recall.types import Dropped, PassResult
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.serving.observe.heartbeat_fields import CopyState, StoreState, health_field, health_of
from orion_recall.serving.observe.metrics import describe_recall, otlp_exporters
from orion_recall.serving.observe.observer import HttpPort, json_answer
from orion_recall.serving.worker import QueryAnswer
from orion_recall.telemetry import continue_trace
from orion_recall.text.normal import memory_key
from orion_recall.values import Hit, MemoryView, Outcome, Scope, SourceReport


def test_a_card_stays_small_and_keeps_what_is_wrong() -> None:
    many = [StoreState(arm="vector", store=f"s{n}", health="ok", required=True) for n in range(500)]
    ill = StoreState(arm="vector", store="last", health="failing", required=True, why="w" * 10_000)
    copy = CopyState(kind="index", copy=None, behind=None, error="e" * 10_000)
    field = health_field([*many, ill], [copy])
    told = health_of({"health": field})
    assert told is not None
    assert (len(told.stores), told.stores[-1].store, told.stores_left_out) == (100, "last", 401)
    assert told.stores[-1].why == "w" * 299 + "…"
    assert len(told.copies[0].error or "") == 300
    assert len(field) < 16_000


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in (ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("endpoint", "protocol", "said"),
    [
        ("collector:4318", "", "OTEL_EXPORTER_OTLP_ENDPOINT: write http://"),
        ("http://collector:4317", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported"),
    ],
)
def test_what_cannot_be_spoken_is_refused(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, protocol: str, said: str
) -> None:
    monkeypatch.setenv(ENDPOINT, endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    with pytest.raises(SettingsError, match=said):
        otlp_exporters()


_WELL = b"GET /live HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.fixture
async def port() -> AsyncGenerator[HttpPort]:
    made = HttpPort("127.0.0.1", 0, {"/live": lambda: json_answer(HTTPStatus.OK, {"live": True})})
    made.start()
    yield made
    await made.stop()


def address(port: HttpPort) -> tuple[str, int]:
    return "127.0.0.1", int(port.url.rpartition(":")[2])


async def said(port: HttpPort, request: bytes) -> bytes:
    """Everything that comes back for these bytes."""
    reader, writer = await asyncio.open_connection(*address(port))
    writer.write(request)
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    return answer


async def served(port: HttpPort) -> bool:
    """Whether a request is answered now."""
    try:
        return b" 200 " in await said(port, _WELL)
    except ConnectionError:
        return False


async def test_silent_clients_and_those_beyond_its_room_are_dropped_and_others_served_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orion_recall.serving.observe.observer._Handler.timeout", 0.3)
    monkeypatch.setattr("orion_recall.serving.observe.observer._MOST_CONNECTIONS", 4)
    port = HttpPort("127.0.0.1", 0, {"/live": lambda: json_answer(HTTPStatus.OK, {"live": True})})
    port.start()
    clients = [await asyncio.open_connection(*address(port)) for _ in range(6)]
    for _, writer in clients:
        writer.write(b"GET /li")
    async with asyncio.timeout(30):
        for reader, writer in clients:
            assert await gone(reader)
            writer.close()
        while not await served(port):  # a busy machine may be slow itself
            await asyncio.sleep(0.01)
    await port.stop()


async def gone(reader: asyncio.StreamReader) -> bool:
    """Whether the other side has hung up without a word."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


BEGAN_NS = 1_772_400_000_000_000_000
QUERY, MEMORY = "Where does Ana keep the spare key?", "The spare key is under the third pot."


def item_of(text: str, *, memory_id: str = "m-key") -> SelectedItem:
    memory = MemoryView(id=memory_id, text=text, text_hash="h")
    scored = ScoredCandidate(candidate=Candidate(key=1), memory=memory, score=0.9, parts={})
    return SelectedItem(scored=scored, snippet=text, line=f"- {text}", tokens=9)


def recalled(*items: SelectedItem) -> Recalled:
    items = items or (item_of(MEMORY),)
    hits = (Hit(key=memory_key("default", "m-key"), score=0.9),)
    result = PassResult(
        reports=(
            SourceReport(source="vector", status="ok", hits=hits, ms=3.5),
            SourceReport(source="lexical", status="failed", ms=2.0, error="the index is away"),
            SourceReport(source="rdf", status="late", ms=4.0, error="no answer within 4 ms"),
            SourceReport(source="sql_timeline", status="off"),
        ),
        within=(),
        pool=(),
        memories={},
        scored=(),
        ranked=tuple(item.scored for item in items),
        dropped=Dropped(),
    )
    return Recalled(
        outcome="degraded",
        scope=Scope(tenant="default"),
        result=result,
        clock=0.0,
        timeout_s=1.0,
        read_at={},
        selection=Selection(items=items, tokens=9, dropped={}),
        stage_ms={"understand": 1.0, "search": 4.0, "rank": 0.5},
    )


def spans_of(
    found: Recalled | None, outcome: Outcome, *, with_content: bool = False, fragment: str = QUERY
) -> Mapping[str, ReadableSpan]:
    """What is exported for one recall, by name."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    traced = continue_trace(None, tracer=tracer)
    query = RecallQueryV1(fragment=fragment, session_id="s-7")
    facts = RequestFacts(decision_id="d", corr_id="c", query=query, tenant="acme", profile="reflect.v1")
    answer = QueryAnswer(outcome=outcome, reply=b"", recalled=found, recall_began_ns=BEGAN_NS)
    describe_recall(facts, answer, traced.span, tracer, with_content=with_content)
    traced.span.end()
    return {span.name: span for span in exporter.get_finished_spans()}


def attributes_of(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


# Half of a surrogate pair, controls, bidi marks, markup, a name of an attribute, and more than is taken.
HOSTILE = "secret-7 \ud800 \x00\x1b[31m \u202e </script> gen_ai.operation.name=delete_memory " + "x" * 100_000


def test_hostile_text_is_nowhere_without_content_capture_and_is_harmless_with_it() -> None:
    hostile = recalled(item_of(HOSTILE, memory_id="secret-7"))
    assert hostile.result is not None
    silent = SourceReport(source="vector", status="failed", ms=1.0, error=HOSTILE)
    hostile = replace(hostile, result=replace(hostile.result, reports=(silent,)))
    quiet = spans_of(hostile, "degraded", fragment=HOSTILE).values()
    assert b"secret-7" not in encode_spans(list(quiet)).SerializeToString()
    captured = spans_of(hostile, "degraded", fragment=HOSTILE, with_content=True)
    sent = encode_spans(list(captured.values())).SerializeToString()
    assert b"secret-7" in sent
    assert len(sent) < 25_000
    recall = attributes_of(captured["recall"])
    assert recall["gen_ai.operation.name"] == "search_memory"
    assert str(recall["input.value"]).startswith("secret-7 \N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}\x1b")
