"""The generated files of contracts/: up to date, valid, and true to what the code accepts and sends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError
from pydantic import ValidationError as ModelError

from orion_recall.contracts import (
    DECISION_KIND,
    DELETE_KIND,
    FEEDBACK_KIND,
    FEEDBACK_RECEIPT_KIND,
    QUERY_ALIASES,
    QUERY_KIND,
    RECEIPT_KIND,
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
from orion_recall.external.mappings import Mappings
from orion_recall.memory.intake.change import read_patch
from orion_recall.memory.record.compose import Patch
from orion_recall.recall.report.reply import reply_json
from orion_recall.schemas.files import contract_files, schemas, write_contracts
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
    RECEIPT_KIND: MemoryReceiptV1,
    UPDATE_KIND: MemoryUpdateV1,
    DELETE_KIND: MemoryDeleteV1,
    FEEDBACK_KIND: RecallFeedbackV1,
    FEEDBACK_RECEIPT_KIND: RecallReceiptV1,
}


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def example(name: str) -> dict[str, Any]:
    return load(CONTRACTS / "examples" / f"{name}.json")


def kind_of(message: dict[str, Any]) -> str:
    kind = message.get("kind") or message["event"]
    return QUERY_KIND if kind in QUERY_ALIASES else kind


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(load(CONTRACTS / f"{name}.schema.json"))


def check(name: str, value: Any) -> None:
    validator(name).validate(value)  # pyright: ignore[reportUnknownMemberType]


def is_valid(name: str, value: Any) -> bool:
    return validator(name).is_valid(value)  # pyright: ignore[reportUnknownMemberType]


def asyncapi() -> dict[str, Any]:
    return yaml.safe_load((CONTRACTS / "asyncapi.yaml").read_text("utf-8"))


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


def test_the_files_are_what_the_code_generates_now():
    on_disk = {
        str(path.relative_to(CONTRACTS)): path.read_bytes() for path in CONTRACTS.rglob("*") if path.is_file()
    }
    generated = {name: text.encode() for name, text in contract_files().items()}
    assert sorted(on_disk) == sorted(generated), "run `make contracts`"
    stale = [name for name, content in generated.items() if on_disk[name] != content]
    assert stale == [], "run `make contracts`"


def test_writing_gives_every_path_and_the_same_bytes_again(tmp_path: Path):
    first = {path: path.read_bytes() for path in write_contracts(tmp_path)}
    assert {path: path.read_bytes() for path in write_contracts(tmp_path)} == first
    assert {path.relative_to(tmp_path).as_posix() for path in first} == set(contract_files())


def test_no_file_names_a_place_on_the_machine_that_generated_it():
    assert not [name for name, text in contract_files().items() if str(Path.home()) in text or "/tmp" in text]


@pytest.mark.parametrize("name", list(schemas()))
def test_every_schema_is_a_valid_one_of_draft_2020_12(name: str):
    schema = load(CONTRACTS / f"{name}.schema.json")
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)  # pyright: ignore[reportUnknownMemberType]
    for reference in references(schema):
        resolve(schema, reference)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_valid_by_its_schemas_and_by_the_models(path: Path):
    message = load(path)
    check("envelope", message)
    kind = kind_of(message)
    check(kind, message["payload"])
    envelope = read_message(Envelope, message, "envelope")
    assert envelope.kind == (message.get("kind") or message["event"])
    read_message(MODELS[kind], envelope.payload, "payload")
    assert count_unknown(Envelope, message) == count_unknown(MODELS[kind], message["payload"]) == 0


def test_there_is_an_example_of_every_kind():
    kinds = {kind_of(load(path)) for path in EXAMPLES}
    assert kinds == set(MODELS)


def test_the_memories_of_the_store_example_are_memories():
    for memory in example("store")["payload"]["memories"]:
        read_message(MemoryV1, memory, "memory")
        assert count_unknown(MemoryV1, memory) == 0


def test_the_query_example_has_the_seven_fields_of_the_founding_document():
    fields = {"fragment", "verb", "intent", "session_id", "node_id", "profile", "reply_to"}
    assert set(example("query")["payload"]) == fields
    assert set(example("query_with_options")["payload"]) == fields | {"options"}


# Short names are read, and never written.
WRITTEN = [path for path in EXAMPLES if "event" not in load(path)]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_strict_readers_take_the_examples(path: Path):
    message = load(path)
    MeshEnvelope.model_validate(message)
    payload, kind = message["payload"], kind_of(message)
    if kind == REPLY_KIND and path.stem in ("reply", "reply_empty"):
        MeshReply.model_validate(payload)
    if kind == DECISION_KIND:
        MeshDecision.model_validate(v1_decision(RecallDecisionV1.model_validate(payload)))


def test_the_extended_reply_is_none_that_a_strict_reader_takes():
    with pytest.raises(ModelError):
        MeshReply.model_validate(example("reply_with_options")["payload"])


@pytest.mark.parametrize("name", ["reply", "reply_empty"])
def test_the_reply_examples_show_exactly_the_founding_documents_fields(name: str):
    payload = example(name)["payload"]
    assert set(payload) == {"bundle"}
    assert set(payload["bundle"]) == {"rendered", "items", "stats"}
    assert set(payload["bundle"]["stats"]) == {"backend_counts", "latency_ms", "profile"}
    fields = {"id", "source", "source_ref", "uri", "score", "ts", "title", "snippet", "tags"}
    assert all(set(item) == fields for item in payload["bundle"]["items"])
    assert (name == "reply") == bool(payload["bundle"]["items"])


def test_the_error_example_is_an_empty_bundle_and_the_error():
    payload = example("reply_error")["payload"]
    assert set(payload) == {"bundle", "error"}
    assert set(payload["error"]) == {"type", "message"}
    assert payload["bundle"]["rendered"] == ""
    assert payload["bundle"]["items"] == []


def test_the_decision_example_has_every_field():
    assert set(example("decision")["payload"]) == set(RecallDecisionV1.model_fields)


@pytest.mark.parametrize("name", ["reply", "reply_with_options", "reply_empty", "reply_error"])
def test_the_reply_examples_are_what_the_service_would_write(name: str):
    payload = example(name)["payload"]
    assert json.loads(reply_json(RecallReplyV1.model_validate(payload))) == payload


@pytest.mark.parametrize("name", ["reply", "reply_with_options"])
def test_every_line_of_the_rendered_examples_is_its_items(name: str):
    bundle = example(name)["payload"]["bundle"]
    for line, item in zip(bundle["rendered"].split("\n"), bundle["items"], strict=True):
        head = re.fullmatch(r"- \[\d{4}-\d\d-\d\d (\w+) (\S+)\] (.*)", line)
        assert head is not None
        assert head.groups() == (item["source"], item["id"], item["snippet"])


SHORT_NAMES = {"correlation_id": "corr_id", "kind": "event", "source": "service", "created_at": "ts"}
WRONG = {"correlation_id": 7, "kind": 7, "source": ["a"], "created_at": True}


@pytest.mark.parametrize("long", list(SHORT_NAMES))
def test_the_envelopes_short_names_are_described_as_the_long_ones_are(long: str):
    message = example("query")
    value = message.pop(long)
    check("envelope", message | {SHORT_NAMES[long]: value})
    for name in (long, SHORT_NAMES[long]):
        broken = message | {name: WRONG[long]}
        assert not is_valid("envelope", broken)
        with pytest.raises(Exception, match="envelope"):
            read_message(Envelope, broken, "envelope")


@pytest.mark.parametrize("source", ["cortex", {"name": "cortex"}, {"name": "cortex", "other": 1}, None])
def test_a_source_may_be_a_plain_string(source: object):
    message: dict[str, Any] = {"source": source, "payload": {}}
    check("envelope", message)
    read_message(Envelope, message, "envelope")


@pytest.mark.parametrize("at", ["2026-03-01T09:30:00Z", "2026-03-01T09:30:00", 1772355600, 1772355600123.0, None])
def test_an_envelopes_time_may_be_text_or_a_number(at: object):
    message: dict[str, Any] = {"ts": at, "payload": {}}
    check("envelope", message)
    read_message(Envelope, message, "envelope")


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        (QUERY_KIND, {}),
        (QUERY_KIND, {"fragment": 7}),
        (QUERY_KIND, {"fragment": "a", "verb": 7}),
        (QUERY_KIND, {"fragment": "a", "options": {"k": 0}}),
        (QUERY_KIND, {"fragment": "a", "options": {"scope": "world"}}),
        (QUERY_KIND, {"fragment": "a", "options": {"kinds": [7]}}),
        (QUERY_KIND, {"fragment": "a", "options": {"since": True}}),
        (QUERY_KIND, {"fragment": "a", "options": {"tenant": "acme\x00"}}),
        (QUERY_KIND, {"fragment": "a", "session_id": "acme\ufffd"}),
        (STORE_KIND, {"memories": []}),
        (STORE_KIND, {}),
    ],
)
def test_what_the_models_refuse_the_schemas_refuse(name: str, payload: dict[str, Any]):
    assert not is_valid(name, payload)
    with pytest.raises(Exception, match="payload"):
        read_message(MODELS[name], payload, "payload")


@pytest.mark.parametrize("memory", [{"id": "a"}, {"text": "a"}, {"id": "a", "text": "a", "kind": 7}])
def test_the_store_schema_describes_its_memories(memory: dict[str, Any]):
    with pytest.raises(ValidationError):
        check(STORE_KIND, {"memories": [memory]})


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
def test_the_update_schema_describes_what_is_to_change(patch: dict[str, Any], fits: bool):
    assert is_valid(UPDATE_KIND, {"memories": [patch]}) == fits
    found = read_patch(patch, "memories.0", Settings.read())
    assert isinstance(found, Patch) == fits


def test_fields_that_are_not_known_are_no_error():
    check("envelope", {"payload": {}, "hop": 3})
    check(QUERY_KIND, {"fragment": "a", "mood": "blue", "options": {"sparkle": True}})


MAPPED: dict[str, dict[str, Any]] = {
    "qdrant": {"name": "n", "url": "http://q", "collection": "c", "tenant": "t", "payload": {"text": "b"}},
    "sparql": {"name": "n", "url": "http://g", "tenant": "t", "text": "urn:says"},
    "tables": {"name": "n", "table": "a.b", "tenant": "t", "columns": {"id": "i", "ts": "t", "text": "x"}},
}


@pytest.mark.parametrize("kind", list(MAPPED))
@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"tenant": None}, False),
        ({"name": "a:b"}, False),
        ({"colection": "c"}, False),
        ({"url": "q:6333", "table": ""}, False),
        (
            {
                "tenant": None,
                "payload": {"text": "b", "tenant": "whose"},
                "columns": MAPPED["tables"]["columns"] | {"tenant": "w"},
            },
            None,
        ),
    ],
)
def test_the_schema_of_the_mappings_takes_what_the_file_may_say(
    kind: str, change: dict[str, Any], good: bool | None
):
    known = MAPPED[kind]
    store = known | {key: value for key, value in change.items() if key in known or key == "colection"}
    expected = kind != "sparql" if good is None else good
    assert is_valid("mappings", {kind: [store]}) == expected
    if expected:
        assert len(getattr(Mappings.model_validate({kind: [store]}), kind)) == 1
    else:
        with pytest.raises(ValueError, match=kind):
            Mappings.model_validate({kind: [store]})


def test_every_reference_of_the_asyncapi_document_resolves():
    document = asyncapi()
    found = list(references(document))
    assert len(found) > 20
    for reference in found:
        if reference.startswith("#/"):
            assert resolve(document, reference) is not None
        else:
            assert (CONTRACTS / reference).is_file(), reference


def test_the_asyncapi_channels_are_the_streams():
    addresses = {channel["address"] for channel in asyncapi()["channels"].values()}
    assert addresses >= {
        "recall.query.v1",
        "recall.reply.v1",
        "recall.reply.v1:{client}",
        "recall.decision.v1",
        "recall.query.v1:dead",
        "memory.store.v1",
    }


def test_every_asyncapi_channel_says_what_parameters_its_address_has():
    for channel in asyncapi()["channels"].values():
        assert set(re.findall(r"\{(\w+)\}", channel["address"] or "")) == set(channel.get("parameters", {}))


def test_every_asyncapi_operation_uses_messages_of_its_own_channels():
    document = asyncapi()
    for name, operation in document["operations"].items():
        assert operation["action"] in ("send", "receive"), name
        for part in filter(None, (operation, operation.get("reply"))):
            channel = part["channel"]["$ref"]
            for message in part["messages"]:
                assert message["$ref"].startswith(f"{channel}/messages/"), name
                resolve(document, message["$ref"])


def test_a_reply_address_comes_from_the_message_and_its_channel_has_none():
    document = asyncapi()
    replies = [operation["reply"] for operation in document["operations"].values() if "reply" in operation]
    assert len(replies) == 12
    for reply in replies:
        assert reply["address"]["location"] == "$message.payload#/reply_to"
        assert resolve(document, reply["channel"]["$ref"])["address"] is None


def test_every_asyncapi_message_is_an_envelope_with_its_kinds_payload():
    document = asyncapi()
    named = {message["name"]: message for message in document["components"]["messages"].values()}
    assert set(named) == {*MODELS, "deadLetter"}
    for kind in MODELS:
        envelope, narrowed = named[kind]["payload"]["schema"]["allOf"]
        assert envelope == {"$ref": "./envelope.schema.json"}
        assert narrowed["properties"]["payload"] == {"$ref": f"./{kind}.schema.json"}
        for shown in named[kind]["x-examples"]:
            message = load(CONTRACTS / shown["$ref"])
            assert kind_of(message) == kind
