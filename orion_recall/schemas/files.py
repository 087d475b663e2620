"""The files of `contracts/`: JSON Schemas, an AsyncAPI document, example messages, and a table of a profile's keys.

They are generated from the code; a test compares them byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import AliasChoices, BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core.core_schema import CoreSchema

from orion_recall.contracts import (
    DECISION_KIND,
    DELETE_KIND,
    FEEDBACK_KIND,
    FEEDBACK_RECEIPT_KIND,
    QUERY_KIND,
    RECEIPT_KIND,
    REPLY_KIND,
    STORE_KIND,
    UNCHANGEABLE,
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
)
from orion_recall.external.mappings import Mappings
from orion_recall.profile import profile_json_schema
from orion_recall.profile.reference import profile_markdown
from orion_recall.schemas.asyncapi import asyncapi_document
from orion_recall.schemas.examples import examples

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFINITIONS = "$defs"
_GENERATED = "# Generated from the code by `make contracts`: edit orion_recall/schemas/asyncapi.py instead.\n"


class _WithoutTitles(GenerateJsonSchema):
    """Schemas without titles that only repeat the field names."""

    def field_title_should_be_set(self, schema: CoreSchema | Any) -> bool:
        return False


def contract_files() -> dict[str, str]:
    """The text of every file by its path in the folder, in the order of the paths."""
    files = {f"{name}.schema.json": _json(schema) for name, schema in schemas().items()}
    files |= {f"examples/{name}.json": _json(example) for name, example in examples().items()}
    files["asyncapi.yaml"] = _GENERATED + yaml.safe_dump(
        asyncapi_document(), sort_keys=False, allow_unicode=True, width=116
    )
    files["profile.md"] = profile_markdown()
    return dict(sorted(files.items()))


def write_contracts(folder: Path) -> list[Path]:
    """Write the files and their folders; gives their paths. Other files are left alone."""
    written: list[Path] = []
    for name, text in contract_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")
        written.append(path)
    return written


def schemas() -> dict[str, Json]:
    """The JSON Schemas (draft 2020-12) by name: the envelope, every kind's payload, a profile and
    the mappings of stores of others.

    What others send is described as it is accepted, what we send as it is sent.
    """
    return {
        "envelope": _with_short_names(_schema(Envelope, "validation"), Envelope, "envelope"),
        QUERY_KIND: _named(_schema(RecallQueryV1, "validation"), QUERY_KIND),
        REPLY_KIND: _named(_schema(RecallReplyV1, "serialization"), REPLY_KIND),
        DECISION_KIND: _named(_schema(RecallDecisionV1, "serialization"), DECISION_KIND),
        STORE_KIND: _named(_store_schema(), STORE_KIND),
        RECEIPT_KIND: _named(_schema(MemoryReceiptV1, "serialization"), RECEIPT_KIND),
        UPDATE_KIND: _named(_update_schema(), UPDATE_KIND),
        DELETE_KIND: _named(_schema(MemoryDeleteV1, "validation"), DELETE_KIND),
        FEEDBACK_KIND: _named(_schema(RecallFeedbackV1, "validation"), FEEDBACK_KIND),
        FEEDBACK_RECEIPT_KIND: _named(_schema(RecallReceiptV1, "serialization"), FEEDBACK_RECEIPT_KIND),
        "profile": profile_json_schema(),
        "mappings": {"$schema": DIALECT, **_schema(Mappings, "validation")},
    }


def _schema(model: type[BaseModel], mode: JsonSchemaMode) -> Json:
    return model.model_json_schema(schema_generator=_WithoutTitles, mode=mode)


def _named(schema: Json, name: str) -> Json:
    return {"$schema": DIALECT, "$id": f"urn:orion:contract:{name}", **schema}


def _with_short_names(schema: Json, model: type[BaseModel], name: str) -> Json:
    """The schema with every further name that a field may have on input."""
    properties: Json = schema["properties"]
    for field in model.model_fields.values():
        if isinstance(field.validation_alias, AliasChoices):
            long, *short = (str(choice) for choice in field.validation_alias.choices)
            for other in short:
                described = {"description": f"short for `{long}`, on input only; `{long}` wins when both are given"}
                properties[other] = _without_default(properties[long]) | described
    return _named(schema, name)


def _without_default(schema: Mapping[str, Any]) -> Json:
    return {key: value for key, value in schema.items() if key != "default"}


def _store_schema() -> Json:
    """The model leaves its memories open, so that one bad memory is rejected alone; here each is a MemoryV1."""
    store, memory = _schema(MemoryStoreV1, "validation"), _schema(MemoryV1, "validation")
    definitions = store.get(_DEFINITIONS, {}) | memory.pop(_DEFINITIONS, {}) | {"MemoryV1": memory}
    store["properties"]["memories"]["items"] = {"$ref": f"#/{_DEFINITIONS}/MemoryV1"}
    return {_DEFINITIONS: definitions, **{key: value for key, value in store.items() if key != _DEFINITIONS}}


def _update_schema() -> Json:
    """The model leaves what is to change open, so that one bad patch is rejected alone; here each is described."""
    update, memory = _schema(MemoryUpdateV1, "validation"), _schema(MemoryV1, "validation")
    fields: Json = {}
    for name, field in memory["properties"].items():
        if name not in UNCHANGEABLE:
            plain = _without_default(field)
            fields[name] = plain if name == "text" or "anyOf" in plain else {"anyOf": [plain, {"type": "null"}]}
    version = {"type": "integer", "description": "change it only if it is still at this version"}
    changes: Json = {
        "type": "object",
        "description": "Fields to change; null clears one.",
        "properties": fields,
        "additionalProperties": False,
        "minProperties": 1,
    }
    patch = changes | {
        "properties": {"id": memory["properties"]["id"], "expected_version": version, **fields},
        "required": ["id"],
        "minProperties": 2,
    }
    definitions = update.get(_DEFINITIONS, {}) | memory.get(_DEFINITIONS, {})
    definitions |= {"MemoryPatchV1": patch, "MemoryChangesV1": changes}
    (listed,) = [one for one in update["properties"]["memories"]["anyOf"] if one["type"] == "array"]
    listed["items"] = {"$ref": f"#/{_DEFINITIONS}/MemoryPatchV1"}
    update["properties"]["set"]["anyOf"][0] = {"$ref": f"#/{_DEFINITIONS}/MemoryChangesV1"}
    return {_DEFINITIONS: definitions, **{key: value for key, value in update.items() if key != _DEFINITIONS}}


def _json(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
