"""Reads patches from messages: known, changeable fields, and at least one of them."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, cast

from orion_recall.contracts import CHANGEABLE, UNCHANGEABLE, MemoryVerdictV1
from orion_recall.errors import InvalidMessage
from orion_recall.memory.intake.handler import redacted_fields
from orion_recall.memory.record.recompose import Patch
from orion_recall.settings import Settings
from orion_recall.text.normal import storable_json

_LONGEST_ID = 512


def read_patch(raw: Mapping[str, Any], where: str, settings: Settings) -> Patch | MemoryVerdictV1:
    """One memory of `memory.update.v1`, or why it is rejected."""
    # Cleaned first: what is compared with the record is as the record has it.
    changes = cast("dict[str, Any]", storable_json(dict(raw)))
    name, version = changes.pop("id", None), changes.pop("expected_version", None)
    try:
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
            raise InvalidMessage(f"{where}.id: expected the id of a memory, of 1 to {_LONGEST_ID} characters")
        if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
            raise InvalidMessage(f"{where}.expected_version: expected a whole number")
        return Patch(id=name, changes=read_changes(changes, where, settings), expected_version=version)
    except InvalidMessage as error:
        return MemoryVerdictV1(id=name if isinstance(name, str) else None, status="rejected", reason=str(error))


def read_changes(raw: Mapping[str, Any], where: str, settings: Settings) -> Mapping[str, Any]:
    """The fields to change; InvalidMessage for one that does not exist or cannot be changed, or for none."""
    changes = cast("dict[str, Any]", storable_json(dict(raw)))
    if not changes:
        raise InvalidMessage(f"{where}: there is nothing to change in it: name a field")
    for field in changes:
        if field in UNCHANGEABLE:
            raise InvalidMessage(f"{where}.{field}: it cannot be changed")
        if field not in CHANGEABLE:
            close = get_close_matches(field, CHANGEABLE, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(CHANGEABLE)}"
            raise InvalidMessage(f"{where}.{field[:60]}: a memory has no such field; {hint}")
    if changes.get("text", "") is None:
        raise InvalidMessage(f"{where}.text: it cannot be cleared: delete the memory instead")
    changes = redacted_fields(changes, settings)
    if isinstance(changes.get("kind"), str):
        settings.check_kinds([changes["kind"]], f"{where}.kind")
    return changes
