"""`orion-recall memory updateq`: all memories that match, changed."""

from __future__ import annotations

from typing import Any

from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.memory.options import (
    Actor,
    Sets,
    Tenant,
    Timeout,
    Where,
    Yes,
    change_matching,
    conditions_of,
    fields_of,
    given,
)
from orion_recall.cli.output import JsonFlag
from orion_recall.errors import SettingsError


def update_matching(
    where: Where = None,
    sets: Sets = None,
    yes: Yes = False,
    tenant: Tenant = None,
    actor: Actor = None,
    timeout: Timeout = 60.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Change every memory that meets all conditions.

    First it only looks: the ids that match are shown, and it asks. What was looked at must still match as many
    memories then, or nothing is changed. `text` holds words that must all occur; of a list one is enough.

    Example: `orion-recall memory updateq --where session_id=s-17 --where tags=harbour --set speaker=Ana`
    """
    settings, conditions, changes = find(data), conditions_of(where), fields_of(sets)
    if not changes:
        raise SettingsError("there is nothing to change: give --set FIELD=VALUE")
    fields: dict[str, Any] = given(tenant=tenant, actor=actor) | {"where": conditions, "set": changes}
    return change_matching(
        settings,
        lambda client, count: client.update(timeout_s=timeout, expected_count=count, **fields),
        what="change",
        done="changed",
        yes=yes,
        as_json=as_json,
    )
