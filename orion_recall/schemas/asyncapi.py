"""The AsyncAPI 3.0 document: streams, channels, operations and messages, referring to the JSON Schemas."""

from __future__ import annotations

from typing import Any

from orion_recall.contracts import (
    DECISION_KIND,
    DELETE_KIND,
    FEEDBACK_KIND,
    FEEDBACK_RECEIPT_KIND,
    QUERY_ALIASES,
    QUERY_KIND,
    RECEIPT_KIND,
    REPLY_KIND,
    STORE_KIND,
    UPDATE_KIND,
)
from orion_recall.settings import DECISIONS_GROUP, RECALL_GROUP

Json = dict[str, Any]

_FORMAT = "application/schema+json;version=draft-2020-12"
# The name of each kind's message and channel, and what it is.
_MESSAGES = {
    QUERY_KIND: ("recallQuery", "One question to memory."),
    REPLY_KIND: ("recallReply", "The answer to one query, or the reason why there is none."),
    DECISION_KIND: ("recallDecision", "The items found, kept and dropped for one query, with the reasons."),
    STORE_KIND: ("memoryStore", "Memories to store, each judged alone."),
    UPDATE_KIND: ("memoryUpdate", "Memories to change, each judged alone."),
    DELETE_KIND: ("memoryDelete", "Memories to delete."),
    RECEIPT_KIND: ("memoryReceipt", "The verdict on each memory of a message."),
    FEEDBACK_KIND: ("recallFeedback", "The memories of a recall that were used, or wrong."),
    FEEDBACK_RECEIPT_KIND: ("recallReceipt", "Whether feedback was recorded."),
}
_ANSWERED_BY = {
    QUERY_KIND: "recallReply",
    STORE_KIND: "memoryReceipt",
    UPDATE_KIND: "memoryReceipt",
    DELETE_KIND: "memoryReceipt",
    FEEDBACK_KIND: "recallReceipt",
}
_ANSWERS = ("recallReply", "memoryReceipt", "recallReceipt")
_REPLY_ADDRESS = (
    "Where the answer goes: `reply_to` of the envelope, else `reply_to` of the payload, else recall.reply.v1. "
    "Allowed are recall.reply.v1 and recall.reply.v1:* (streams), orion-exec:result:*, orion:exec:result:* and "
    "orion:orch:result:* (pub/sub); another address is refused, and answered on recall.reply.v1."
)
_PUBLISHED = "Pub/sub: published once, lost if nobody listens. The message is the JSON itself."
_CLIENT = {"client": {"description": "A name that no other caller has, such as a UUID."}}


def asyncapi_document() -> Json:
    """The whole document; every `$ref` is local to it or to a file beside it."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "orion-recall",
            "version": "1.0.0",
            "description": (
                "A message is a stream entry whose field `envelope` (or `data`) holds JSON: a Titanium envelope "
                "around the payload that its `kind` names. Unknown fields are ignored, unknown options of a query "
                "and a wrong type in a known field are errors. All names may stand under one prefix (ORION_PREFIX)."
            ),
        },
        "defaultContentType": "application/json",
        "servers": {
            "bus": {
                "host": "localhost:6379",
                "protocol": "redis",
                "protocolVersion": "7.0",
                "description": "Redis 7.0 or newer, or Valkey. A ttl counts from the entry's own id.",
            }
        },
        "channels": _channels(),
        "operations": _operations(),
        "components": {"messages": _messages(), "schemas": {"deadLetter": _DEAD_LETTER}},
    }


def _channels() -> Json:
    channels: Json = {}
    for kind in _ANSWERED_BY:
        name = _MESSAGES[kind][0]
        about = "An entry is answered, acknowledged and deleted in one step. Senders never trim the stream."
        channels[name] = _channel(kind, about, name, group=RECALL_GROUP)
        dead = "Entries that could not be read, or were delivered too often. Trimmed to about 10,000."
        channels[f"{name}Dead"] = _channel(f"{kind}:dead", dead, "deadLetter")
    decisions = (
        "One decision for every query. Persisted ones are trimmed after an hour, others are kept up to a cap of "
        "1,000,000. With ORION_DECISION_CHANNELS each is published, too, with its V1 fields alone."
    )
    channels["recallDecision"] = _channel(DECISION_KIND, decisions, "recallDecision", group=DECISIONS_GROUP)
    shared = (
        "Shared by all who name no reply address; answers are found by correlation_id. Trimmed after 10 minutes."
    )
    channels["recallReply"] = _channel(REPLY_KIND, shared, *_ANSWERS)
    own = "A caller's own stream: about 10,000 entries, expires 10 minutes after the last answer."
    channels["recallReplyOfClient"] = _channel(f"{REPLY_KIND}:{{client}}", own, *_ANSWERS)
    for name, address in (
        ("executorResult", "orion-exec:result:{client}"),
        ("executorResultColon", "orion:exec:result:{client}"),
        ("orchestratorResult", "orion:orch:result:{client}"),
    ):
        channels[name] = _channel(address, _PUBLISHED, *_ANSWERS, stream=False)
    queries = f"{_PUBLISHED} One worker puts it into the stream recall.query.v1 (ORION_QUERY_CHANNELS)."
    for name, address in (
        ("executorQuery", QUERY_KIND),
        ("executorQueryLater", "orion:exec:request:RecallService"),
    ):
        channels[name] = _channel(address, queries, "recallQuery", stream=False)
    channels["replyAddress"] = {"address": None, "description": _REPLY_ADDRESS, "messages": _references(_ANSWERS)}
    return channels


def _channel(address: str, about: str, *messages: str, group: str | None = None, stream: bool = True) -> Json:
    notes: Json = {"type": "stream" if stream else "pubsub"}
    if group is not None:
        notes |= {"field": "envelope", "alsoAccepted": ["data"], "consumerGroup": group, "groupStartsAt": "0"}
    return {
        "address": address,
        "description": about,
        "messages": _references(messages),
        **({"parameters": _CLIENT} if "{client}" in address else {}),
        "servers": [{"$ref": "#/servers/bus"}],
        "x-redis": notes,
    }


def _references(names: tuple[str, ...]) -> Json:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}


def _operations() -> Json:
    """The worker's operations: an executor's are their mirror image."""
    operations: Json = {}
    for kind, reply in _ANSWERED_BY.items():
        name = _MESSAGES[kind][0]
        operations[f"answer_{name}"] = _operation("receive", name, name, reply=reply)
        operations[f"bury_{name}"] = _operation("send", f"{name}Dead", "deadLetter")
    for channel in ("executorQuery", "executorQueryLater"):
        operations[f"take_{channel}"] = _operation("receive", channel, "recallQuery", reply="recallReply")
    operations["decide"] = _operation("send", "recallDecision", "recallDecision")
    operations["persist"] = _operation("receive", "recallDecision", "recallDecision")
    return operations


def _operation(action: str, channel: str, message: str, *, reply: str | None = None) -> Json:
    operation: Json = {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
    }
    if reply is not None:
        operation["reply"] = {
            "address": {"description": _REPLY_ADDRESS, "location": "$message.payload#/reply_to"},
            "channel": {"$ref": "#/channels/replyAddress"},
            "messages": [{"$ref": f"#/channels/replyAddress/messages/{reply}"}],
        }
    return operation


def _messages() -> Json:
    messages: Json = {
        name: {
            "name": kind,
            "summary": summary,
            "contentType": "application/json",
            "correlationId": {"location": "$message.payload#/correlation_id"},
            "payload": {"schemaFormat": _FORMAT, "schema": _enveloped(kind)},
        }
        for kind, (name, summary) in _MESSAGES.items()
    }
    dead = {"$ref": "#/components/schemas/deadLetter"}
    return messages | {"deadLetter": {"name": "deadLetter", "summary": "A dead entry and why.", "payload": dead}}


def _enveloped(kind: str) -> Json:
    """An envelope whose payload is the kind's; a kind that is absent is the stream's own."""
    named = {"enum": [kind, *(QUERY_ALIASES if kind == QUERY_KIND else ()), "", None]}
    payload = {"$ref": f"./{kind}.schema.json"}
    of_kind = {"type": "object", "properties": {"kind": named, "event": named, "payload": payload}}
    return {"allOf": [{"$ref": "./envelope.schema.json"}, of_kind]}


_DEAD_LETTER: Json = {
    "type": "object",
    "description": "The fields of the stream entry itself (no JSON envelope).",
    "required": ["entry_id", "reason", "correlation_id"],
    "properties": {
        "entry_id": {"type": "string", "description": "the id that the entry had on its stream"},
        "reason": {"type": "string", "description": "`invalid: …` or `poison: …`"},
        "correlation_id": {"type": "string"},
        "field:envelope": {"type": "string", "description": "the field `envelope` of the entry, as it was"},
        "message_bytes": {"type": "string", "description": "of an entry that is too large to keep: its size"},
        "message_sha256": {"type": "string", "description": "and a SHA-256 of its message, in hex"},
        "message_head": {"type": "string", "description": "and the first 4 kB of it"},
    },
    "additionalProperties": {"type": "string"},
}
