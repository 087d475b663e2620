"""The generated files of contracts/: up to date, valid, and true to what the code accepts and sends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from jsonschema import Draft202012Validator

from orion_recall.contracts import (
    DECISION_KIND,
    QUERY_KIND,
    REPLY_KIND,
    STORE_KIND,
    UPDATE_KIND,
    Envelope,
    MemoryDeleteV1,
    MemoryReceiptV1,
    MemoryStoreV1,
    MemoryUpdateV1,
    MemoryV1,
    RecallDecisionV1,
    RecallFeedbackV1,
    RecallQueryV1,
    RecallReceiptV1,
    RecallReplyV1,
    count_unknown,
    read_message,
    v1_decision,
)
from orion_recall.contracts.recall import QUERY_ALIASES
from orion_recall.external.mappings import Mappings
from orion_recall.memory.intake.handlers import read_patch
from orion_recall.memory.record.compose import Patch
from orion_recall.recall.report.reply import reply_json
from orion_recall.schemas import contract_files, schemas, write_contracts
from orion_recall.settings import Settings
from orion_recall.shipped import shipped_folder
from tests.stand_ins.mesh import MeshDecision, MeshEnvelope, MeshReply

CONTRACTS = shipped_folder("contracts")
EXAMPLES = sorted((CONTRACTS / "examples").glob("*.json"))
MODELS = {
    QUERY_KIND: RecallQueryV1,
    REPLY_KIND: RecallReplyV1,
    DECISION_KIND: RecallDecisionV1,
    STORE_KIND: MemoryStoreV1,
    "memory.receipt.v1": MemoryReceiptV1,
    UPDATE_KIND: MemoryUpdateV1,
    "memory.delete.v1": MemoryDeleteV1,
    "recall.feedback.v1": RecallFeedbackV1,
    "recall.receipt.v1": RecallReceiptV1,
}


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def example(name: str) -> dict[str, Any]:
    return load(CONTRACTS / "examples" / f"{name}.json")


def kind_of(message: dict[str, Any]) -> str:
    kind = message.get("kind") or message["event"]
    return QUERY_KIND if kind in QUERY_ALIASES else kind


def is_valid(name: str, value: Any) -> bool:
    return Draft202012Validator(load(CONTRACTS / f"{name}.schema.json")).is_valid(value)  # pyright: ignore[reportUnknownMemberType]


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in cast("dict[str, Any]", node).items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in cast("list[Any]", node):
            yield from references(value)


def resolve(document: Any, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        document = document[step.replace("~1", "/").replace("~0", "~")]
    return document


def test_the_files_are_what_the_code_generates_now(tmp_path: Path) -> None:
    written = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in write_contracts(tmp_path)}
    assert written == {name: text.encode() for name, text in contract_files().items()}
    on_disk = {
        path.relative_to(CONTRACTS).as_posix(): path.read_bytes() for path in CONTRACTS.rglob("*") if path.is_file()
    }
    assert [name for name in sorted({*on_disk, *written}) if on_disk.get(name) != written.get(name)] == [], (
        "run `make contracts`"
    )


@pytest.mark.parametrize("name", list(schemas()))
def test_every_schema_is_a_valid_one_of_draft_2020_12(name: str) -> None:
    schema = load(CONTRACTS / f"{name}.schema.json")
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)  # pyright: ignore[reportUnknownMemberType]
    for reference in references(schema):
        resolve(schema, reference)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_valid_by_its_schemas_its_model_and_strict_readers(path: Path) -> None:
    message, kind = load(path), kind_of(load(path))
    payload = message["payload"]
    assert is_valid("envelope", message) and is_valid(kind, payload)
    read_message(Envelope, message, "envelope")
    read_message(MODELS[kind], payload, "payload")
    assert count_unknown(Envelope, message) == count_unknown(MODELS[kind], payload) == 0
    if "event" not in message:  # short names are read, and never written
        MeshEnvelope.model_validate(message)
    if kind == STORE_KIND:
        assert [count_unknown(MemoryV1, memory) for memory in payload["memories"]] == [0]
    if kind == REPLY_KIND:
        assert json.loads(reply_json(RecallReplyV1.model_validate(payload))) == payload
    if path.stem in ("reply", "reply_empty"):
        MeshReply.model_validate(payload)
    if kind == DECISION_KIND:
        MeshDecision.model_validate(v1_decision(RecallDecisionV1.model_validate(payload)))


@pytest.mark.parametrize("name", ["reply", "reply_empty"])
def test_the_reply_examples_show_exactly_the_founding_documents_fields(name: str) -> None:
    bundle = example(name)["payload"]["bundle"]
    assert set(bundle) == {"rendered", "items", "stats"}
    assert set(bundle["stats"]) == {"backend_counts", "latency_ms", "profile"}
    fields = {"id", "source", "source_ref", "uri", "score", "ts", "title", "snippet", "tags"}
    assert [set(item) for item in bundle["items"]] == ([fields] if name == "reply" else [])
    assert bool(bundle["rendered"]) == (name == "reply")


@pytest.mark.parametrize(
    ("long", "short", "wrong"),
    [
        ("correlation_id", "corr_id", 7),
        ("kind", "event", 7),
        ("source", "service", ["a"]),
        ("created_at", "ts", True),
    ],
)
def test_the_envelopes_short_names_are_described_as_the_long_ones_are(long: str, short: str, wrong: object) -> None:
    message = example("query")
    value = message.pop(long)
    assert is_valid("envelope", message | {short: value})
    for name in (long, short):
        assert not is_valid("envelope", message | {name: wrong})


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        (QUERY_KIND, {}),
        (QUERY_KIND, {"fragment": 7}),
        (QUERY_KIND, {"fragment": "a", "options": {"k": 0}}),
        (QUERY_KIND, {"fragment": "a", "options": {"scope": "world"}}),
        (QUERY_KIND, {"fragment": "a", "options": {"tennant": "acme"}}),
        (QUERY_KIND, {"fragment": "a", "options": {"since": True}}),
        (QUERY_KIND, {"fragment": "a", "options": {"tenant": "acme\x00"}}),
        (STORE_KIND, {"memories": []}),
        (STORE_KIND, {}),
    ],
)
def test_what_the_models_refuse_the_schemas_refuse(name: str, payload: dict[str, Any]) -> None:
    assert not is_valid(name, payload)
    with pytest.raises(Exception, match="payload"):
        read_message(MODELS[name], payload, "payload")


@pytest.mark.parametrize(
    ("patch", "fits"),
    [
        ({"id": "a", "text": "b", "expected_version": 2}, True),
        ({"id": "a", "title": None, "tags": None, "kind": None}, True),
        ({"text": "b"}, False),
        ({"id": "a"}, False),
        ({"id": "a", "text": None}, False),
        ({"id": "a", "txt": "b"}, False),
        ({"id": "a", "tenant": "b"}, False),
    ],
)
def test_the_update_schema_describes_what_is_to_change(patch: dict[str, Any], fits: bool) -> None:
    assert is_valid(UPDATE_KIND, {"memories": [patch]}) == fits
    assert isinstance(read_patch(patch, "memories.0", Settings.read()), Patch) == fits


MAPPED: dict[str, dict[str, Any]] = {
    "qdrant": {"name": "n", "url": "http://q", "collection": "c", "tenant": "t", "payload": {"text": "b"}},
    "sparql": {"name": "n", "url": "http://g", "tenant": "t", "text": "urn:says"},
    "tables": {"name": "n", "table": "a.b", "tenant": "t", "columns": {"id": "i", "ts": "t", "text": "x"}},
}


@pytest.mark.parametrize("kind", list(MAPPED))
@pytest.mark.parametrize(
    ("change", "good"),
    [({}, True), ({"tenant": None}, False), ({"name": "a:b"}, False), ({"colection": "c"}, False)],
)
def test_the_schema_of_the_mappings_takes_what_the_file_may_say(
    kind: str, change: dict[str, Any], good: bool
) -> None:
    store = {kind: [MAPPED[kind] | change]}
    assert is_valid("mappings", store) == good
    if good:
        Mappings.model_validate(store)
    else:
        with pytest.raises(ValueError, match=kind):
            Mappings.model_validate(store)


def test_the_asyncapi_document_has_the_streams_and_refers_to_what_is_there() -> None:
    document = yaml.safe_load((CONTRACTS / "asyncapi.yaml").read_text("utf-8"))
    for reference in references(document):
        assert resolve(document, reference) if reference.startswith("#/") else (CONTRACTS / reference).is_file()
    channels = document["channels"]
    addresses = {channel["address"] for channel in channels.values()}
    streams = {kind for kind in MODELS if not kind.endswith("receipt.v1")}
    assert addresses >= streams | {"recall.reply.v1:{client}", "recall.query.v1:dead", "orion-exec:result:{client}"}
    for channel in channels.values():
        assert set(re.findall(r"\{(\w+)\}", channel["address"] or "")) == set(channel.get("parameters", {}))
    for operation in document["operations"].values():
        for part in filter(None, (operation, operation.get("reply"))):
            assert part["messages"][0]["$ref"].startswith(f"{part['channel']['$ref']}/messages/")
