"""What was asked of a recall beside its text, as the decision log keeps it, so that it can be asked again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from orion_recall.contracts import RecallQueryV1
from orion_recall.recall.report.query_text import KeptText
from orion_recall.recall.types import Recalled
from orion_recall.recall.understand.question import zone_name
from orion_recall.values import Scope

# Times are no numbers of telephones, and whose memories are searched is told in other columns as it is.
_NO_TEXT = frozenset(
    {"clock", "zone", "since", "until", "as_of", "timezone", "user", "session_id", "user_id", "agent_id", "run_id"}
)


def asked(query: RecallQueryV1, recalled: Recalled | None, kept_text: KeptText) -> tuple[dict[str, Any], bool]:
    """What was asked as JSON, and whether all of it is there: words may be redacted, or not kept at all.

    Without a recall only what the message says.
    """
    options = query.options
    given = {} if options is None else options.model_dump(mode="json", exclude_defaults=True, exclude={"tenant"})
    told: dict[str, Any] = {"options": given}
    if query.exclude is not None:
        told["turn"] = query.exclude.model_dump(mode="json", exclude_defaults=True)
    if query.lane is not None:
        told["lane"] = query.lane
    if recalled is not None and recalled.basis is not None:
        basis = recalled.basis
        told["scope"] = _scope(recalled.scope)
        told["clock"] = datetime.fromtimestamp(basis.clock, UTC).isoformat()
        told["zone"] = zone_name(query)
        told["limits"] = {"search_ms": round(basis.timeout_s * 1000)}
    if kept_text.is_full:
        kept = kept_text.redaction.json(told, without=_NO_TEXT)
        return kept, kept is told or kept == told
    return _without_words(told), False


def scope_name(scope: Scope) -> str:
    """How wide a scope is within its tenant: session, user or global."""
    return "session" if scope.session_id else "user" if scope.user_id else "global"


def _scope(scope: Scope) -> dict[str, Any]:
    """The scope that was searched: its name, and what it is narrowed to. Its times are those of the options."""
    parts: dict[str, Any] = {
        "name": scope_name(scope),
        "session_id": scope.session_id,
        "user_id": scope.user_id,
        "agent_id": scope.agent_id,
        "run_id": scope.run_id,
        "kinds": list(scope.kinds),
        "tags": list(scope.tags),
    }
    return {name: value for name, value in parts.items() if value}


def _without_words(told: dict[str, Any]) -> dict[str, Any]:
    """The same without tags, and without what was said or written."""
    found = {name: value for name, value in told.items() if name != "lane"}
    for name, words in (("options", ("tags",)), ("turn", ("active_turn_text",)), ("scope", ("tags",))):
        if name in found:
            found[name] = {key: value for key, value in found[name].items() if key not in words}
    return found
