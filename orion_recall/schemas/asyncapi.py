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
_TITLES = {
    QUERY_KIND: (
        "recallQuery",
        "One question to memory.",
        ("query", "query_with_options", "query_with_short_names", "query_of_newer_executors"),
    ),
    REPLY_KIND: (
        "recallReply",
        "The answer to one query, or the reason why there is none.",
        ("reply", "reply_with_options", "reply_empty", "reply_error"),
    ),
    DECISION_KIND: ("recallDecision", "What was found, kept and dropped, and why.", ("decision",)),
    STORE_KIND: ("memoryStore", "Memories to keep, each judged alone.", ("store",)),
    RECEIPT_KIND: (
        "memoryReceipt",
        "What became of each memory of a message.",
        ("receipt", "receipt_of_update", "receipt_of_dry_run", "receipt_of_delete"),
    ),
    UPDATE_KIND: ("memoryUpdate", "Memories to change, each judged alone.", ("update", "update_where")),
    DELETE_KIND: ("memoryDelete", "Memories to delete.", ("delete", "delete_where")),
    FEEDBACK_KIND: ("recallFeedback", "What a recall was worth.", ("feedback",)),
    FEEDBACK_RECEIPT_KIND: ("recallReceipt", "That feedback was kept.", ("feedback_receipt",)),
}
_ANSWERS = ("recallReply", "memoryReceipt", "recallReceipt")
_REPLY_ADDRESS = (
    "Where the answer goes: `reply_to` of the envelope, else `reply_to` of the payload, else recall.reply.v1. "
    "Allowed are recall.reply.v1 and recall.reply.v1:* (streams), orion-exec:result:*, orion:exec:result:* and "
    "orion:orch:result:* (pub/sub); another address is refused, and answered on recall.reply.v1."
)
_INTAKE = (
    "One consumer group serves the stream. An entry is answered, acknowledged and deleted in one step; who sends "
    "must never trim the stream, because that drops unread entries."
)
_DEAD = "Entries that could not be read or that were delivered too often, with the reason. Trimmed to about 10,000."


def asyncapi_document() -> Json:
    """The whole document; every `$ref` is local to it or to a file beside it."""
    return {
        "asyncapi": "3.0.0",
        "info": _info(),
        "defaultContentType": "application/json",
        "servers": {"bus": _server()},
        "channels": _channels(),
        "operations": _worker_operations() | _executor_operations(),
        "components": {"messages": _messages(), "schemas": {"deadLetter": _dead_letter()}},
    }


def _info() -> Json:
    return {
        "title": "orion-recall",
        "version": "1.0.0",
        "description": (
            "The one place an agent mesh asks what it remembers. Everything crosses a Redis (or Valkey) bus: a "
            "message is a stream entry whose field `envelope` holds JSON, a Titanium envelope around the payload "
            "that its `kind` names. `data` is accepted for the field's name, too. Unknown fields are ignored, a "
            "wrong type in a known field is an error. All names may stand under one prefix (ORION_PREFIX)."
        ),
    }


def _server() -> Json:
    return {
        "host": "localhost:6379",
        "protocol": "redis",
        "protocolVersion": "6.2",
        "description": "Redis or Valkey, 6.2 or newer. A ttl counts from the entry's own id: the server's clock.",
    }


def _channels() -> Json:
    return {
        "recallQuery": _stream(QUERY_KIND, _INTAKE, ("recallQuery",), group=RECALL_GROUP),
        "recallReply": _stream(
            REPLY_KIND,
            "Shared by all who name no reply address of their own; read from where one stands, find answers by "
            "their correlation_id. Trimmed by age (10 minutes).",
            _ANSWERS,
        ),
        "recallReplyOfClient": _stream(
            f"{REPLY_KIND}:{{client}}",
            "A caller's own stream. Trimmed to about 10,000 entries, expires 10 minutes after the last answer; the "
            "caller deletes what it has read, and the stream when it leaves.",
            _ANSWERS,
        )
        | {"parameters": {"client": {"description": "A name that no other caller has, such as a UUID."}}},
        "executorQuery": _query_channel("recall.query.v1"),
        "executorQueryLater": _query_channel("orion:exec:request:RecallService"),
        "executorResult": _pubsub("orion-exec:result:{client}"),
        "executorResultColon": _pubsub("orion:exec:result:{client}"),
        "orchestratorResult": _pubsub("orion:orch:result:{client}"),
        "replyAddress": {
            "address": None,
            "description": _REPLY_ADDRESS,
            "messages": _references(_ANSWERS),
        },
        "recallDecision": _stream(
            DECISION_KIND,
            "One decision for every query. Written to Postgres by a sink; what is persisted is trimmed after an "
            "hour, what is not is kept up to a cap of 1,000,000. With ORION_DECISION_CHANNELS each is "
            "published, too, with its V1 fields alone.",
            ("recallDecision",),
            group=DECISIONS_GROUP,
        ),
        "recallQueryDead": _dead_stream(f"{QUERY_KIND}:dead"),
        "memoryStore": _stream(STORE_KIND, _INTAKE, ("memoryStore",), group=RECALL_GROUP),
        "memoryStoreDead": _dead_stream(f"{STORE_KIND}:dead"),
        "memoryUpdate": _stream(UPDATE_KIND, _INTAKE, ("memoryUpdate",), group=RECALL_GROUP),
        "memoryUpdateDead": _dead_stream(f"{UPDATE_KIND}:dead"),
        "memoryDelete": _stream(DELETE_KIND, _INTAKE, ("memoryDelete",), group=RECALL_GROUP),
        "memoryDeleteDead": _dead_stream(f"{DELETE_KIND}:dead"),
        "recallFeedback": _stream(FEEDBACK_KIND, _INTAKE, ("recallFeedback",), group=RECALL_GROUP),
        "recallFeedbackDead": _dead_stream(f"{FEEDBACK_KIND}:dead"),
    }


def _stream(address: str, description: str, messages: tuple[str, ...], *, group: str | None = None) -> Json:
    notes: Json = {"type": "stream", "field": "envelope"}
    if group is not None:
        notes |= {"alsoAccepted": ["data"], "consumerGroup": group, "groupStartsAt": "0"}
    return {
        "address": address,
        "description": description,
        "messages": _references(messages),
        "servers": [{"$ref": "#/servers/bus"}],
        "x-redis": notes,
    }


def _dead_stream(address: str) -> Json:
    return _stream(address, _DEAD, ("deadLetter",)) | {"x-redis": {"type": "stream", "field": None}}


def _pubsub(address: str) -> Json:
    return {
        "address": address,
        "description": "A pub/sub channel: published once, lost if nobody listens. The message is the JSON itself.",
        "messages": _references(_ANSWERS),
        "parameters": {"client": {"description": "Whatever the executor chose."}},
        "servers": [{"$ref": "#/servers/bus"}],
        "x-redis": {"type": "pubsub"},
    }


def _query_channel(address: str) -> Json:
    return {
        "address": address,
        "description": (
            "A pub/sub channel (ORION_QUERY_CHANNELS): every worker hears it, and one puts the message into the "
            "stream recall.query.v1, the first by the envelope's id within a minute. Lost if nobody listens. The "
            "message is the JSON itself."
        ),
        "messages": _references(("recallQuery",)),
        "servers": [{"$ref": "#/servers/bus"}],
        "x-redis": {"type": "pubsub"},
    }


def _references(names: tuple[str, ...]) -> Json:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}


def _worker_operations() -> Json:
    return {
        "answerQuery": _operation(
            "receive", "recallQuery", "recallQuery", "Worker: one reply and one decision for every query.",
            reply="recallReply",
        ),
        "takePublishedQuery": _operation(
            "receive", "executorQuery", "recallQuery", "Worker: put into the stream recall.query.v1, once.",
            reply="recallReply",
        ),
        "takeQueryPublishedLater": _operation(
            "receive", "executorQueryLater", "recallQuery", "Worker: put into the stream recall.query.v1, once.",
            reply="recallReply",
        ),
        "recordDecision": _operation(
            "send", "recallDecision", "recallDecision", "Worker: written in one step with the reply."
        ),
        "buryQuery": _operation(
            "send", "recallQueryDead", "deadLetter", "Worker: for entries that are invalid or killed workers."
        ),
        "storeMemories": _operation(
            "receive", "memoryStore", "memoryStore", "Worker: one receipt for every batch.", reply="memoryReceipt"
        ),
        "buryStore": _operation(
            "send", "memoryStoreDead", "deadLetter", "Worker: for store messages that cannot be served."
        ),
        "updateMemories": _operation(
            "receive", "memoryUpdate", "memoryUpdate", "Worker: one receipt for every message.",
            reply="memoryReceipt",
        ),
        "buryUpdate": _operation(
            "send", "memoryUpdateDead", "deadLetter", "Worker: for updates that cannot be served."
        ),
        "deleteMemories": _operation(
            "receive", "memoryDelete", "memoryDelete", "Worker: one receipt for every message.",
            reply="memoryReceipt",
        ),
        "buryDelete": _operation(
            "send", "memoryDeleteDead", "deadLetter", "Worker: for deletions that cannot be served."
        ),
        "keepFeedback": _operation(
            "receive", "recallFeedback", "recallFeedback", "Worker: kept once for every entry.",
            reply="recallReceipt",
        ),
        "buryFeedback": _operation(
            "send", "recallFeedbackDead", "deadLetter", "Worker: for feedback that cannot be served."
        ),
        "persistDecision": _operation(
            "receive", "recallDecision", "recallDecision", "Sink: writes decisions to Postgres, once each."
        ),
    }  # fmt: skip


def _executor_operations() -> Json:
    return {
        "askMemory": _operation(
            "send", "recallQuery", "recallQuery",
            "Executor: XADD the query; wait for the answer at its own reply address.", reply="recallReply",
        ),
        "readReply": _operation(
            "receive", "recallReplyOfClient", "recallReply",
            "Executor: XREAD from 0 (no group), match correlation_id, XDEL what was read.",
        ),
        "readReceipt": _operation(
            "receive", "recallReplyOfClient", "memoryReceipt", "Executor: the same stream carries receipts."
        ),
        "sendMemories": _operation(
            "send", "memoryStore", "memoryStore", "Executor: XADD a batch of memories.", reply="memoryReceipt"
        ),
        "changeMemories": _operation(
            "send", "memoryUpdate", "memoryUpdate", "Executor: XADD what is to change.", reply="memoryReceipt"
        ),
        "removeMemories": _operation(
            "send", "memoryDelete", "memoryDelete", "Executor: XADD what is to go.", reply="memoryReceipt"
        ),
        "giveFeedback": _operation(
            "send", "recallFeedback", "recallFeedback", "Executor: XADD what was used, or wrong.",
            reply="recallReceipt",
        ),
    }  # fmt: skip


def _operation(action: str, channel: str, message: str, summary: str, *, reply: str | None = None) -> Json:
    operation: Json = {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
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
            "x-examples": [{"$ref": f"./examples/{example}.json"} for example in examples],
        }
        for kind, (name, summary, examples) in _TITLES.items()
    }
    messages["deadLetter"] = {
        "name": "deadLetter",
        "summary": "A dead entry: its fields under `field:`, beside the reason.",
        "payload": {"$ref": "#/components/schemas/deadLetter"},
    }
    return messages


def _enveloped(kind: str) -> Json:
    """An envelope whose payload is the kind's; a kind that is absent is the stream's own."""
    named = {"enum": [kind, *(QUERY_ALIASES if kind == QUERY_KIND else ()), "", None]}
    payload = {"$ref": f"./{kind}.schema.json"}
    return {
        "allOf": [
            {"$ref": "./envelope.schema.json"},
            {"type": "object", "properties": {"kind": named, "event": named, "payload": payload}},
        ]
    }


def _dead_letter() -> Json:
    return {
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
