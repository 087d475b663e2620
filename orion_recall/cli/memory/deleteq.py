"""`orion-recall memory deleteq`: all memories that match, deleted for ever."""

from __future__ import annotations

from typing import Any

from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.memory.delete import Erase, Reason
from orion_recall.cli.memory.options import (
    Actor,
    Tenant,
    Timeout,
    Where,
    Yes,
    change_matching,
    conditions_of,
    given,
)
from orion_recall.cli.output import JsonFlag


def delete_matching(
    where: Where = None,
    yes: Yes = False,
    reason: Reason = None,
    erase: Erase = False,
    tenant: Tenant = None,
    actor: Actor = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Delete every memory that meets all conditions.

    First it only looks: the ids that match are shown, and it asks. What was looked at must still match as many
    memories then, or nothing is deleted. `text` holds words that must all occur; of a list one is enough.

    Example: `orion-recall memory deleteq --where "text=gearbox crane" --where until=P30D`
    """
    settings = find(data)
    fields: dict[str, Any] = given(tenant=tenant, actor=actor, reason=reason)
    fields |= {"where": conditions_of(where), "erase": erase}
    return change_matching(
        settings,
        lambda client, count: client.delete(timeout_s=timeout, expected_count=count, **fields),
        what="delete",
        done="deleted",
        yes=yes,
        as_json=as_json,
    )
