from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, StatusCode

from orion_recall.contracts import RecallQueryV1
from orion_recall.recall.bundle.selection import SelectedItem, Selection
from orion_recall.recall.report.decision import RequestFacts
from orion_recall.recall.types import Recalled
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.serving.observe.spans import describe_recall
from orion_recall.serving.worker import ServedMessage
from orion_recall.telemetry import continue_trace
from orion_recall.text.normal import memory_key
from orion_recall.values import Hit, MemoryView, Outcome, Scope, SourceReport

BEGAN_NS = 1_772_400_000_000_000_000
QUERY, MEMORY = "Where does Ana keep the spare key?", "The spare key is under the third pot."


def item_of(text: str, *, memory_id: str = "m-key") -> SelectedItem:
    memory = MemoryView(id=memory_id, text=text, text_hash="h")
    scored = ScoredCandidate(candidate=Candidate(key=1), memory=memory, score=0.9, parts={})
    return SelectedItem(scored=scored, snippet=text, line=f"- {text}", tokens=9)


def recalled(*items: SelectedItem) -> Recalled:
    items = items or (item_of(MEMORY),)
    hits = (Hit(key=memory_key("default", "m-key"), score=0.9),)
    return Recalled(
        outcome="degraded",
        scope=Scope(tenant="default"),
        reports=(
            SourceReport(source="vector", status="ok", hits=hits, ms=3.5),
            SourceReport(source="lexical", status="failed", ms=2.0, error="the index is away"),
            SourceReport(source="rdf", status="late", ms=4.0, error="no answer within 4 ms"),
            SourceReport(source="sql_timeline", status="off"),
        ),
        ranked=tuple(item.scored for item in items),
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
    served = ServedMessage(
        facts=facts,
        outcome=outcome,
        commit="committed",
        seconds=0.01,
        traced=traced,
        recalled=found,
        recall_began_ns=BEGAN_NS,
    )
    describe_recall(served, tracer, with_content=with_content)
    traced.span.end()
    return {span.name: span for span in exporter.get_finished_spans()}


def context_of(span: ReadableSpan) -> SpanContext:
    assert span.context is not None
    return span.context


def ms_from_start(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.start_time - BEGAN_NS) / 1e6, (span.end_time - BEGAN_NS) / 1e6


def test_stages_follow_each_other_and_sources_lie_in_the_search() -> None:
    spans = spans_of(recalled(), "degraded")
    assert {name: ms_from_start(span) for name, span in spans.items() if name != "recall"} == {
        "recall.understand": (0.0, 1.0),
        "recall.search": (1.0, 5.0),
        "recall.rank": (5.0, 5.5),
        "recall.source.vector": (1.0, 4.5),
        "recall.source.lexical": (1.0, 3.0),
        "recall.source.rdf": (1.0, 5.0),
    }
    parents = {name: span.parent.span_id if span.parent else None for name, span in spans.items()}
    ids = {name: context_of(span).span_id for name, span in spans.items()}
    assert parents == {
        name: ids["recall.search" if "source" in name else "recall"] if name != "recall" else None for name in spans
    }
    assert len({context_of(span).trace_id for span in spans.values()}) == 1


def test_a_source_says_how_it_ended() -> None:
    spans = spans_of(recalled(), "degraded")
    assert dict(spans["recall.source.vector"].attributes or {}) == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "vector",
        "orion.recall.source": "vector",
        "orion.recall.status": "ok",
        "orion.recall.hits": 1,
        "orion.recall.ms": 3.5,
    }
    lexical = spans["recall.source.lexical"]
    assert (lexical.status.status_code, lexical.status.description) == (StatusCode.ERROR, None)
    captured = spans_of(recalled(), "degraded", with_content=True)["recall.source.lexical"]
    assert captured.status.description == "the index is away"
    assert (spans["recall"].attributes or {})["orion.recall.items"] == 1
    assert spans["recall"].status.status_code == StatusCode.UNSET


def attributes_of(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def test_with_content_capture_a_recall_has_its_query_and_its_documents_in_order() -> None:
    found = recalled(item_of("first", memory_id="m-1"), item_of("second", memory_id="m-2"))
    captured = attributes_of(spans_of(found, "ok", with_content=True)["recall"])
    assert captured["input.value"] == QUERY
    assert {name: value for name, value in captured.items() if name.startswith("retrieval.")} == {
        "retrieval.documents.0.document.id": "m-1",
        "retrieval.documents.0.document.content": "first",
        "retrieval.documents.0.document.score": 0.9,
        "retrieval.documents.1.document.id": "m-2",
        "retrieval.documents.1.document.content": "second",
        "retrieval.documents.1.document.score": 0.9,
    }


# Half of a surrogate pair, controls, bidi marks, markup, a name of an attribute, and more than is taken.
HOSTILE = "secret-7 \ud800 \x00\x1b[31m \u202e </script> gen_ai.operation.name=delete_memory " + "x" * 100_000


def test_hostile_text_is_nowhere_without_content_capture_and_is_harmless_with_it() -> None:
    hostile = replace(
        recalled(item_of(HOSTILE, memory_id="secret-7")),
        reports=(SourceReport(source="vector", status="failed", ms=1.0, error=HOSTILE),),
    )
    quiet = spans_of(hostile, "degraded", fragment=HOSTILE).values()
    assert b"secret-7" not in encode_spans(list(quiet)).SerializeToString()
    captured = spans_of(hostile, "degraded", fragment=HOSTILE, with_content=True)
    sent = encode_spans(list(captured.values())).SerializeToString()
    assert b"secret-7" in sent
    assert len(sent) < 25_000
    recall = attributes_of(captured["recall"])
    assert recall["gen_ai.operation.name"] == "search_memory"
    assert str(recall["input.value"]).startswith("secret-7 \N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}\x1b")
