"""The reference page of messages: every kind with its fields, made from the models that read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from orion_recall.schemas.files import schemas

_INTRODUCTION = """\
# Messages

Every message is one JSON object in an envelope, in the field `envelope` of a stream entry. The JSON Schemas, an
AsyncAPI document and example messages lie in `contracts/`. A field in bold is required.
"""
_LEFT_OUT = ("profile", "mappings")


def messages_page() -> str:
    """Every message with its fields as Markdown."""
    parts = [_INTRODUCTION]
    for name, schema in schemas().items():
        if name not in _LEFT_OUT:
            parts.append(_section(f"## {name}", schema))
            parts += [_section(f"### {inner}", one) for inner, one in schema.get("$defs", {}).items()]
    return "\n".join(parts)


def _section(heading: str, schema: Mapping[str, Any]) -> str:
    lines = [heading, "", " ".join(str(schema.get("description", "")).split()), ""]
    required = set(schema.get("required", ()))
    rows = [_row(name, one, is_required=name in required) for name, one in schema.get("properties", {}).items()]
    if rows:
        lines += ["| field | takes | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(name: str, schema: Mapping[str, Any], *, is_required: bool) -> str:
    shown = f"**`{name}`**" if is_required else f"`{name}`"
    meaning = " ".join(str(schema.get("description", "")).split()).replace("|", "\\|")
    return f"| {shown} | {_takes(schema)} | {meaning} |"


def _takes(schema: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_takes(one) for one in schema[key]))
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_takes(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_takes(schema['additionalProperties'])}"
    return " or ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind)
