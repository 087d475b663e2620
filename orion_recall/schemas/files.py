"""The files of `contracts/`: JSON Schemas, made here, and what is written by hand, as it is shipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core.core_schema import CoreSchema

from orion_recall import contracts
from orion_recall.contracts.memory import FEEDBACK_RECEIPT_KIND, RECEIPT_KIND
from orion_recall.external.mappings import Mappings
from orion_recall.profile import Profile
from orion_recall.shipped import shipped_folder

Json = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# What others send is described as it is accepted, what we send as it is sent.
_MODELS: dict[str, tuple[type[BaseModel], JsonSchemaMode]] = {
    contracts.QUERY_KIND: (contracts.RecallQueryV1, "validation"),
    contracts.REPLY_KIND: (contracts.RecallReplyV1, "serialization"),
    contracts.DECISION_KIND: (contracts.RecallDecisionV1, "serialization"),
    contracts.STORE_KIND: (contracts.MemoryStoreV1, "validation"),
    RECEIPT_KIND: (contracts.MemoryReceiptV1, "serialization"),
    contracts.UPDATE_KIND: (contracts.MemoryUpdateV1, "validation"),
    contracts.DELETE_KIND: (contracts.MemoryDeleteV1, "validation"),
    contracts.FEEDBACK_KIND: (contracts.RecallFeedbackV1, "validation"),
    FEEDBACK_RECEIPT_KIND: (contracts.RecallReceiptV1, "serialization"),
}


class _WithoutTitles(GenerateJsonSchema):
    """Schemas without titles that only repeat the field names."""

    def field_title_should_be_set(self, schema: CoreSchema | Any) -> bool:
        return False


def contract_files() -> dict[str, str]:
    """The text of every file by its path in the folder, in the order of the paths."""
    files = {f"{name}.schema.json": _json(schema) for name, schema in schemas().items()}
    shipped = shipped_folder("contracts")
    by_hand = [shipped / "asyncapi.yaml", *(shipped / "examples").glob("*.json")]
    files |= {path.relative_to(shipped).as_posix(): path.read_text("utf-8") for path in by_hand}
    return dict(sorted(files.items()))


def write_contracts(folder: Path) -> list[Path]:
    """Write the files and their folders; gives their paths. Other files are left alone."""
    for name, text in contract_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8", newline="\n")
    return [folder / name for name in contract_files()]


def schemas() -> dict[str, Json]:
    """The JSON Schemas (draft 2020-12) by name: the envelope, each payload, a profile, mappings of stores."""
    return {
        "envelope": _contract("envelope", _envelope()),
        **{kind: _contract(kind, _schema(*described)) for kind, described in _MODELS.items()},
        "profile": {"$schema": _DIALECT, **Profile.model_json_schema()},  # for editors of profiles
        "mappings": {"$schema": _DIALECT, **_schema(Mappings, "validation")},
    }


def _contract(name: str, schema: Json) -> Json:
    return {"$schema": _DIALECT, "$id": f"urn:orion:contract:{name}", **schema}


def _schema(model: type[BaseModel], mode: JsonSchemaMode) -> Json:
    return model.model_json_schema(schema_generator=_WithoutTitles, mode=mode)


def _envelope() -> Json:
    """The envelope with the short names that some fields may have on input: pydantic describes one name."""
    schema = _schema(contracts.Envelope, "validation")
    for field in contracts.Envelope.model_fields.values():
        if isinstance(field.validation_alias, AliasChoices):
            long, *short = (str(choice) for choice in field.validation_alias.choices)
            plain = {key: value for key, value in schema["properties"][long].items() if key != "default"}
            about = {"description": f"short for `{long}`, on input only; `{long}` wins when both are given"}
            schema["properties"] |= dict.fromkeys(short, plain | about)
    return schema


def _json(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
