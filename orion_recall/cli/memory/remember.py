"""`orion-recall memory remember`: stores one sentence under an id derived from it."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.memory.options import Tenant, Timeout, given, say, send
from orion_recall.cli.output import JsonFlag, console, note, print_json


def remember(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The sentence.")],
    speaker: Annotated[str | None, typer.Option(help="Who said it.")] = None,
    session: Annotated[str | None, typer.Option(help="In which session.")] = None,
    user: Annotated[str | None, typer.Option(help="Whose it is (user_id).")] = None,
    agent: Annotated[str | None, typer.Option(help="Of which agent (agent_id).")] = None,
    run: Annotated[str | None, typer.Option(help="Of which run (run_id).")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.")] = None,
    kind: Annotated[str | None, typer.Option(help="Its kind, such as world or plan.")] = None,
    undated: Annotated[bool, typer.Option("--undated", help="Store it without a date, not as said now.")] = False,
    tenant: Tenant = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Remember a sentence, and print its id.

    The id is a hash of everything given but the time: the same sentence of the same speaker is stored once.

    Example: `orion-recall memory remember "The crane is repaired." --speaker Ana --session s-17 --tag harbour`
    """
    memory: dict[str, Any] = {"text": text} | given(
        speaker=speaker,
        session_id=session,
        user_id=user,
        agent_id=agent,
        run_id=run,
        tags=tag or None,
        kind=kind,
        tenant=tenant,
    )
    memory["id"] = id_of(memory)
    if not undated:
        memory["mentioned_at"] = datetime.now(UTC).isoformat(timespec="seconds")
    receipt = send(find(data), lambda client: client.store([memory], timeout_s=timeout))
    # The same sentence with the time of another moment: what is known stays as it was.
    is_other = receipt.conflict and "was deleted" not in (receipt.results[0].reason or "")
    known = is_other or receipt.unchanged
    if not known and (receipt.error is not None or not receipt.stored):
        return say(receipt, as_json=as_json)
    if known:
        note("it was remembered before")
    if as_json:
        print_json({"id": memory["id"]} | receipt.model_dump(mode="json", exclude_unset=True))
    else:
        console().print(memory["id"], soft_wrap=True)
    return 0


def id_of(memory: dict[str, Any]) -> str:
    """`m-` and sixteen hexadecimal digits, of what the memory says."""
    canonical = json.dumps(memory, sort_keys=True).encode("utf-8", "surrogatepass")
    return f"m-{hashlib.blake2b(canonical, digest_size=8).hexdigest()}"
