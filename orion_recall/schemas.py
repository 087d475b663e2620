"""What is written from the code: the files of `contracts/`, and the settings reference.

JSON Schemas are made here; what is written by hand is as it is shipped. Of each setting the reference has variable,
default and meaning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core.core_schema import CoreSchema

from orion_recall import contracts
from orion_recall.contracts.memory import FEEDBACK_RECEIPT_KIND, RECEIPT_KIND
from orion_recall.external.mappings import Mappings
from orion_recall.profile import Profile
from orion_recall.settings import FILE_SUFFIX, Settings, is_secret
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


PREFIX = "ORION_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One setting. `default` is written as in the environment; "" for none."""

    variable: str
    default: str
    meaning: str
    is_secret: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """Its variable and, of a secret, the one that names a file with it."""
        return (self.variable, f"{self.variable}{FILE_SUFFIX}") if self.is_secret else (self.variable,)


def setting_rows() -> list[SettingRow]:
    return [
        SettingRow(
            variable=f"{PREFIX}{name}".upper(),
            default=_written(field),
            meaning=field.description or "",
            is_secret=is_secret(field),
        )
        for name, field in Settings.model_fields.items()
    ]


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """The names with our prefix that are no settings: nothing reads them."""
    known = {name for row in setting_rows() for name in row.variables}
    # The environment's names are read in any case.
    return sorted(name for name in environment if name.upper().startswith(PREFIX) and name.upper() not in known)


def as_markdown(rows: Iterable[SettingRow]) -> str:
    lines = [
        "# Settings",
        "",
        "Every setting of workers and commands with its default, made by `make environment` from the code.",
        "What is marked **secret** (an address may hold a password) is never logged. Each of these may be in a",
        "file, as Docker and Kubernetes mount secrets: `ORION_NAME_FILE` is its path. To set both is an error.",
        "",
    ]
    for row in rows:  # a default in words stands at the end of the meaning
        meaning, _, in_words = row.meaning.partition("; default: ")
        default = f"`{row.default}`" if row.default else in_words or "none"
        lines.append(f"- `{row.variable}` ({default}): {meaning}{' **secret**' if row.is_secret else ''}")
    return "\n".join(lines) + "\n"


def _written(field: FieldInfo) -> str:
    """The default as written in the environment. One that depends on the machine is in the description."""
    default: Any = None if field.default_factory is not None else field.default
    match default:
        case None:
            return ""
        case bool():
            return str(default).lower()
        case tuple():
            return ",".join(str(part) for part in cast("tuple[object, ...]", default))
        case Mapping():
            return ",".join(f"{key}={value}" for key, value in cast("Mapping[str, str]", default).items())
        case Path():
            return default.as_posix()
        case _:
            return str(default)
