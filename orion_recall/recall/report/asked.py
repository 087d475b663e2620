"""What was asked of a recall: its text as the decision log keeps it, and all that is needed to ask it again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, cast

from orion_recall.contracts import RecallDecisionV1, RecallOptionsV1, RecallQueryV1, read_message
from orion_recall.errors import InvalidMessage, MessageError
from orion_recall.profile.model import CANDIDATES, Profile
from orion_recall.recall.pipeline import Recalled
from orion_recall.recall.understand.question import zone_name
from orion_recall.settings import Settings
from orion_recall.text.redaction import NO_REDACTION, Redaction
from orion_recall.values import QUERY_CLASSES, QUESTION_SHAPES, QueryClass, QuestionShape, Scope

QUERY_CHARS = 4000
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptText:
    """The query text in its kept form. The hash is BLAKE2b (RFC 7693) of the whole text as it was sent: without a
    key, which all workers share, anybody can check a guessed text against it."""

    mode: Literal["full", "hash", "none"] = "full"
    key: bytes = field(default=b"", repr=False)
    redaction: Redaction = NO_REDACTION

    @classmethod
    def of(cls, settings: Settings) -> KeptText:
        """As the settings say."""
        secret = settings.query_hash_key
        # A key may have 64 bytes; a secret of any length becomes one.
        key = hashlib.blake2b(secret.get_secret_value().encode()).digest() if secret else b""
        return cls(mode=settings.query_text, key=key, redaction=Redaction.at("log", settings.redact))

    @property
    def is_full(self) -> bool:
        """Whether text is kept as it is."""
        return self.mode == "full"

    def query(self, text: str) -> str:
        """The text, cut; or its hash; or "". A text that is not there has no hash."""
        return self.intent(text[:QUERY_CHARS] if self.is_full else text) or ""

    def intent(self, text: str | None) -> str | None:
        """The same, whole, for the words that came along with the query."""
        if self.is_full:
            return self.redaction.optional(text)
        if self.mode == "none" or not text:
            return "" if text == "" else None
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), key=self.key, digest_size=_DIGEST_BYTES)
        return f"blake2b:{digest.hexdigest()}"

    def keeps(self, text: str | None) -> bool:
        """Whether nothing in a text is redacted."""
        return not self.redaction.kinds or text is None or self.redaction.text(text) == text

    def error(self, error: MessageError) -> str:
        """What was wrong with a message, without quoting it where its text is not kept."""
        if self.is_full or not isinstance(error, InvalidMessage):
            return self.redaction.text(str(error))
        return error.without_values


# Times are no numbers of telephones, and whose memories are searched is told in other columns as it is.
_NO_TEXT = frozenset(
    {"clock", "zone", "since", "until", "as_of", "timezone", "user", "session_id", "user_id", "agent_id", "run_id"}
)


def asked(query: RecallQueryV1, recalled: Recalled | None, kept_text: KeptText) -> tuple[dict[str, Any], bool]:
    """What was asked as JSON, and whether all of it is there: words may be redacted, or not kept at all. Without a
    recall only what the message says."""
    options = query.options
    given = {} if options is None else options.model_dump(mode="json", exclude_defaults=True, exclude={"tenant"})
    told: dict[str, Any] = {"options": given}
    if query.exclude is not None:
        told["turn"] = query.exclude.model_dump(mode="json", exclude_defaults=True)
    if query.lane is not None:
        told["lane"] = query.lane
    if recalled is not None:
        scope = recalled.scope  # its times are those of the options
        parts = {name: getattr(scope, name) for name in ("session_id", "user_id", "agent_id", "run_id")}
        parts |= {"name": scope_name(scope), "kinds": list(scope.kinds), "tags": list(scope.tags)}
        told["scope"] = {name: value for name, value in parts.items() if value}
        told["clock"] = datetime.fromtimestamp(recalled.clock, UTC).isoformat()
        told["zone"] = zone_name(query)
        told["limits"] = {"search_ms": round(recalled.timeout_s * 1000)}
    if kept_text.is_full:
        kept = kept_text.redaction.json(told, without=_NO_TEXT)
        return kept, kept is told or kept == told
    found = {name: value for name, value in told.items() if name != "lane"}
    for name in found.keys() & {"options", "turn", "scope"}:
        found[name] = {key: one for key, one in found[name].items() if key not in ("tags", "active_turn_text")}
    return found, False


def scope_name(scope: Scope) -> str:
    """How wide a scope is within its tenant: session, user or global."""
    return "session" if scope.session_id else "user" if scope.user_id else "global"


def why_not_again(decision: RecallDecisionV1) -> str | None:
    """Why the query of a decision cannot be asked again; None where it can be."""
    if decision.not_replayable is not None:
        return decision.not_replayable
    if decision.asked is None:
        return "the version that took it did not keep what was asked"
    if "clock" not in decision.asked:
        return f"nothing was searched for (outcome {decision.outcome})"
    return "what it says was asked is damaged" if is_damaged(decision) else None


def is_damaged(decision: RecallDecisionV1) -> bool:
    """Whether something of what was asked cannot be read: the log is anybody's to write."""
    asked = decision.asked or {}
    are_parts = all(isinstance(asked.get(name) or {}, Mapping) for name in ("options", "scope", "turn"))
    return not are_parts or ("clock" in asked and _moment(asked["clock"]) is None)


def asked_part(decision: RecallDecisionV1, name: str) -> Mapping[str, Any]:
    """One part of what was asked: the `options`, the `scope` that was searched, the `turn`."""
    found = (decision.asked or {}).get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def options_of(decision: RecallDecisionV1) -> RecallOptionsV1:
    """The options as they were given; those that were not kept are absent. InvalidMessage of another version."""
    return read_message(RecallOptionsV1, asked_part(decision, "options"), "asked.options")


def query_of(decision: RecallDecisionV1) -> RecallQueryV1:
    """The query of a decision that can be asked again. InvalidMessage where another version wrote it."""
    payload: dict[str, Any] = {
        "fragment": decision.query,
        "verb": decision.verb,
        "intent": decision.intent,
        "session_id": decision.session_id,
        "node_id": decision.node_id,
        "profile": decision.profile_requested,
        "options": asked_part(decision, "options"),
        "exclude": asked_part(decision, "turn") or None,
        "lane": (decision.asked or {}).get("lane"),
    }
    return read_message(RecallQueryV1, payload, "asked")


def clock_of(decision: RecallDecisionV1) -> float:
    """What was now for the query (epoch seconds); where that is not known, when the decision was taken."""
    told = _moment((decision.asked or {}).get("clock"))
    return decision.created_at.timestamp() if told is None else told


class Limits(NamedTuple):
    """The limits that a query was answered under; each source searches for `source_limit` hits."""

    min_score: float
    budget_tokens: int
    rank_pool: int
    source_limit: int


def limits_of_decision(decision: RecallDecisionV1, profile: Profile) -> Limits:
    """The limits of a decision that was taken by this profile, which may have strategies for its class."""
    options, understood = options_of(decision), decision.understood or {}
    query_class: QueryClass | None = next((one for one in QUERY_CLASSES if one == understood.get("class")), None)
    shape: QuestionShape | None = next((one for one in QUESTION_SHAPES if one == understood.get("shape")), None)
    by = profile if query_class is None else profile.for_class(query_class, shape)
    return Limits(
        min_score=by.min_score if options.min_score is None else options.min_score,
        budget_tokens=options.max_tokens or by.render_budget_tokens,
        rank_pool=max(by.rank_pool, options.k or by.max_total_items),
        source_limit=CANDIDATES[options.budget or by.budget],
    )


def _moment(told: object) -> float | None:
    try:
        return datetime.fromisoformat(told).timestamp() if isinstance(told, str) else None
    except (ValueError, OverflowError):
        return None
