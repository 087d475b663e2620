"""Example messages of every kind, as they stand in the field `envelope` of a stream entry.

One story: an executor asks what keeps the harbour crane from running, and gets what Bo and Ana said of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from orion_recall.contracts import DECISION_KIND, QUERY_ALIASES, QUERY_KIND, REPLY_KIND, RecallDecisionV1
from orion_recall.schemas.example_envelopes import (
    ANSWERED,
    CORRELATION_ID,
    DECISION_ID,
    FRAGMENT,
    REPLY_TO,
    Json,
    answer,
    request,
)
from orion_recall.schemas.example_memories import memory_examples

_CRANE = "Bo: The harbour crane needs a new gearbox by Friday."
_ORDER = "Ana: I ordered the gearbox for the crane at Fjord Labs."


def examples() -> dict[str, Json]:
    """The messages by file name."""
    return {
        "query": request(QUERY_KIND, _query()),
        "query_with_options": request(QUERY_KIND, _query() | {"options": _options()}),
        "query_with_short_names": _short_names(),
        "query_of_newer_executors": request(QUERY_ALIASES[0], _query() | _hints()),
        "reply": answer(REPLY_KIND, {"bundle": _bundle(_items())}),
        "reply_with_options": answer(REPLY_KIND, {"bundle": _extended_bundle()}),
        "reply_empty": answer(REPLY_KIND, {"bundle": _bundle([])}),
        "reply_error": answer(REPLY_KIND, _error_reply()),
        "decision": answer(DECISION_KIND, _decision()),
        **memory_examples(),
    }


def _short_names() -> Json:
    return {
        "corr_id": CORRELATION_ID,
        "event": QUERY_KIND,
        "service": "cortex-exec",
        "ts": 1772439330.25,
        "payload": {"fragment": FRAGMENT},
    }


def _query() -> Json:
    return {
        "fragment": FRAGMENT,
        "verb": "reflect",
        "intent": "plan the day's repairs",
        "session_id": "shift-2026-03-02",
        "node_id": "athena",
        "profile": "reflect.v1",
        "reply_to": REPLY_TO,
    }


def _hints() -> Json:
    """What newer executors send besides; an empty text says that there is none."""
    turn: Json = {"active_turn_ids": ["mem-40"], "active_turn_text": FRAGMENT, "active_turn_ts": 1772439330.0}
    return {"session_id": "", "node_id": "", "lane": "chat", "exclude": turn}


def _options() -> Json:
    return {
        "tenant": "default",
        "scope": "global",
        "k": 8,
        "budget": "mid",
        "max_tokens": 200,
        "min_score": 0.1,
        "kinds": ["experience", "world"],
        "tags": ["harbour"],
        "since": "2026-02-01T00:00:00Z",
        "until": "2026-03-02T09:15:00+01:00",
        "as_of": "2026-03-02T08:15:30Z",
        "timezone": "Europe/Oslo",
        "exclude": ["mem-03"],
        "cascade": True,
        "confidence_threshold": 0.65,
        "max_cascade_depth": 1,
        "include": {"trace": True, "entities": True, "chunks": False},
    }


def _items() -> list[Json]:
    return [
        _item("mem-17", "lexical", _CRANE, score=0.963431, ts=1772355600.0),
        _item("mem-21", "vector", _ORDER, score=0.901172, ts=1772391600.0),
    ]


def _item(memory_id: str, source: str, snippet: str, *, score: float, ts: float) -> Json:
    return {
        "id": memory_id,
        "source": source,
        "source_ref": "index",
        "uri": None,
        "score": score,
        "ts": ts,
        "title": None,
        "snippet": snippet,
        "tags": ["harbour"],
    }


def _bundle(items: list[Json]) -> Json:
    lines = [f"- [2026-03-01 {item['source']} {item['id']}] {item['snippet']}" for item in items]
    found = len(items)
    counts = {"vector": found, "lexical": found, "rdf": 0, "sql_timeline": 0}
    stats = {"backend_counts": counts, "latency_ms": 38, "profile": "reflect.v1"}
    return {"rendered": "\n".join(lines), "items": items, "stats": stats}


def _extended_bundle() -> Json:
    crane, order = _items()
    crane |= _further(
        "Bo", {"fusion": 1.0, "similarity": 0.871707, "recency": 0.890899}, ranks=(2, 1), sure=0.868732
    )
    order |= _further(
        "Ana", {"fusion": 0.983871, "similarity": 0.612345, "recency": 0.979}, ranks=(1, 3), sure=0.791171
    )
    bundle = _bundle([crane, order])
    bundle["stats"] |= {
        "latency_ms": 38.214,
        "outcome": "ok",
        "decision_id": DECISION_ID,
        "tokens": 58,
        "dropped": {"near_duplicate": 1},
        "sources": _source_stats(),
        "trace": _trace([crane, order]),
        "confidence": crane["confidence"]["overall"],
    }
    return bundle


def _trace(items: list[Json]) -> Json:
    """Why the first came first; of the candidates the first alone, whose shares add up to its score."""
    crane, order = items
    weights, shares = {"fusion": 0.7, "similarity": 0.2, "recency": 0.1}, (0.7, 0.174341, 0.08909)
    parts = [
        {"part": part, "value": crane["score_parts"][part], "weight": weight, "share": share}
        for (part, weight), share in zip(weights.items(), shares, strict=True)
    ]
    return {
        "stage_ms": {"understand": 0.4, "search": 30.1, "fuse": 0.2, "rank": 0.6},
        "ranked": 2,
        "understood": {
            "time": {"intervals": [], "asks_when": False, "session": None, "of": None, "widened": False},
            "asks_for": [],
        },
        "searched": {"by_meaning": FRAGMENT, "by_words": FRAGMENT, "named_speaker": None},
        "why": [
            {
                "code": "item",
                "place": 1,
                "id": crane["id"],
                "score": crane["score"],
                "found": {"lexical": 1, "vector": 2},
                "parts": [{"part": part["part"], "share": part["share"]} for part in parts],
                "ahead": {"by": round(crane["score"] - order["score"], 6), "part": "similarity"},
            }
        ],
        "candidates": [
            {
                "place": 1,
                "kept": True,
                "id": crane["id"],
                "kind": crane["kind"],
                "speaker": crane["speaker"],
                "ts": crane["ts"],
                "text": _CRANE.removeprefix("Bo: "),
                "fused": 0.5,
                "sources": {"vector": {"rank": 2, "score": 0.871707}, "lexical": {"rank": 1, "score": 11.2}},
                "statements": [],
                "score": crane["score"],
                "parts": parts,
                "dropped": None,
                "confidence": crane["confidence"],
            }
        ],
        "not_listed": 1,
    }


def _further(speaker: str, parts: Mapping[str, float], *, ranks: tuple[int, int], sure: float) -> Json:
    return {
        "kind": "experience",
        "speaker": speaker,
        "session_id": "shift-2026-03-01",
        "score_parts": dict(parts),
        "ranks": {"vector": ranks[0], "lexical": ranks[1]},
        "entities": [speaker, "Fjord Labs"],
        "confidence": {
            "overall": sure,
            "level": "high",
            "semantic_relevance": parts["similarity"],
            "source_quality": 0.9,
            "recency": parts["recency"],
            "consistency": 0.7,
            "completeness": 1.0,
        },
        "layer": "episodic",
    }


def _source_stats() -> Json:
    return {
        "vector": {"status": "ok", "count": 2, "ms": 9.214, "error": None},
        "lexical": {"status": "ok", "count": 2, "ms": 1.022, "error": None},
        "rdf": {"status": "empty", "count": 0, "ms": 2.518, "error": None},
        "sql_timeline": {"status": "empty", "count": 0, "ms": 3.127, "error": None},
    }


def _error_reply() -> Json:
    stats: Json = {"backend_counts": {}, "latency_ms": 0.412, "profile": "reflect.v1"}
    error = {"type": "invalid", "message": "payload.fragment: Input should be a valid string (got 7)"}
    return {"bundle": {"rendered": "", "items": [], "stats": stats}, "error": error}


def _decision() -> Json:
    items = _extended_bundle()["items"]
    decided = RecallDecisionV1.model_validate(
        {
            "id": DECISION_ID,
            "corr_id": CORRELATION_ID,
            **{name: value for name, value in _query().items() if name not in ("fragment", "reply_to", "intent")},
            "intent": _query()["intent"],
            "query": FRAGMENT,
            "query_chars": len(FRAGMENT),
            "selected_ids": [item["id"] for item in items],
            "selected": [
                {
                    "id": item["id"],
                    "source": item["source"],
                    "score": item["score"],
                    "parts": item["score_parts"],
                    "ranks": item["ranks"],
                    "confidence": item["confidence"],
                    "layer": item["layer"],
                }
                for item in items
            ],
            "backend_counts": {"vector": 2, "lexical": 2, "rdf": 0, "sql_timeline": 0},
            "sources": _source_stats(),
            "dropped": {"near_duplicate": 1},
            "understood": {
                "time": {"intervals": [], "asks_when": False, "session": None, "of": None, "widened": False},
                "asks_for": [],
                "class": "factual",
                "class_words": [],
                "language": "english",
                "people": ["Ana"],
                "entities": [{"name": "Ana", "kind": "capitalised"}],
            },
            "confidence": items[0]["confidence"]["overall"],
            "cascade": _cascade(items[0]["confidence"]["overall"]),
            "latency_ms": 38.214,
            "stage_ms": {"understand": 0.4, "search": 30.1, "fuse": 0.2, "rank": 0.6, "total": 38.214},
            "created_at": ANSWERED,
            "outcome": "ok",
            "tenant": "default",
            "scope": "global",
            "profile_requested": "reflect.v1",
            "profile_hash": "8f3b1c0a9d2e4f57",
            "tokens": 58,
            "entry_id": "1772439330251-0",
            "reply_to": REPLY_TO,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "worker": "athena-4711",
            "strategy": None,
            "shadow_of": None,
            "canary": None,
            "asked": {
                "options": {"kinds": ["world"]},
                "scope": {"name": "global", "kinds": ["world"]},
                "clock": ANSWERED,
                "zone": "UTC",
                "limits": {"search_ms": 1950},
            },
            "read_at": {"index": 48211, "graph": 48211},
            "build": {
                "version": "0.1.0",
                "model": "all-MiniLM-L6-v2",
                "weights": "0f3a5b9c1d2e",
                "extractor": "light",
            },
            "not_replayable": None,
            "candidates": [_candidate(items[0], place=1, kept=True), _repeating(items[0])],
        }
    )
    return decided.model_dump(mode="json")


def _candidate(item: Json, **more: object) -> Json:
    return {
        "id": item["id"],
        "source": item["source"],
        "ranks": item["ranks"],
        "fused": 0.93442,
        "score": item["score"],
        "parts": item["score_parts"],
        "weights": dict.fromkeys(item["score_parts"], 0.2),
        "layer": item["layer"],
        **more,
    }


def _repeating(item: Json) -> Json:
    """A candidate that said the same as an item."""
    return _candidate(item, id="mem-0192", score=0.741, dropped="near_duplicate", dropped_for=item["id"])


def _cascade(sure: float) -> Json:
    """Facts were not sure enough, what happened was."""
    nothing: Json = {"hits": 0, "confidence": None, "ms": 3.127, "late": []}
    return {
        "primary_layer": "semantic",
        "primary_confidence": None,
        "cascaded_to": ["episodic", "graph", "procedural"],
        "cascade_confidences": [sure, None, None],
        "final_confidence": sure,
        "threshold": 0.65,
        "depth": 1,
        "max_depth": 1,
        "ended": "confident",
        "trigger": "nothing_found",
        "merge_strategy": None,
        "combined": {"episodic": 2},
        "path": [
            {"layer": "semantic", "depth": 0, **nothing},
            {"layer": "episodic", "depth": 1, "hits": 2, "confidence": sure, "ms": 9.214, "late": []},
            {"layer": "graph", "depth": 1, **nothing},
            {"layer": "procedural", "depth": 1, **nothing},
        ],
    }
