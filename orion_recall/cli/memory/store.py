"""`orion-recall memory store`: stores one memory, given by flags or as JSON."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast

import typer

from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.memory.options import Sets, Tenant, Timeout, drop_none, fields_of, given, say, send
from orion_recall.cli.output import JsonFlag
from orion_recall.errors import InvalidMessage, SettingsError
from orion_recall.memory.transfer.import_file import read_json


def store_memory(
    memory_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Unique in its tenant.")] = None,
    text: Annotated[str | None, typer.Option(help="What the memory says.")] = None,
    sets: Sets = None,
    tenant: Tenant = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Store one memory.

    The same id with the same content changes nothing; with other content it is a conflict (see `memory update`).
    Without an ID, standard input holds the memory as one JSON object, with the fields of memory.store.v1.

    Example: `orion-recall memory store m-1 --text "The crane is repaired." --set speaker=Ana --set tags=harbour`
    """
    if memory_id is None:
        memory = _from_input()
    elif text is None:
        raise SettingsError("--text is missing: give what the memory says")
    else:
        memory = {"id": memory_id, "text": text}
    memory = memory | drop_none(fields_of(sets)) | given(tenant=tenant)
    receipt = send(find(data), lambda client: client.store([memory], timeout_s=timeout))
    return say(receipt, as_json=as_json)


def _from_input() -> dict[str, Any]:
    """SettingsError when standard input is no JSON object."""
    if sys.stdin.isatty():
        raise SettingsError("give an ID and --text, or a memory as JSON on standard input")
    try:
        found = read_json(sys.stdin.buffer.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"standard input is not UTF-8 at byte {error.start}") from None
    except InvalidMessage as error:
        raise SettingsError(f"standard input: {error}") from None
    if not isinstance(found, dict):
        raise SettingsError('standard input: expected one JSON object, such as {"id": "m-1", "text": "…"}')
    return cast("dict[str, Any]", found)
