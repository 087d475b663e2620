"""Contracts: the messages that cross the bus, as models that are the source of the JSON Schemas in contracts/.

Input is lenient in names (short and long ones; unknown fields are ignored and counted) and strict in types: a wrong
type in a known field is an error that names the field. Output always uses the long names. A reply to a query
without `options` has the V1 fields only: its readers may be strict.
"""

from orion_recall.contracts.fields import Envelope, ErrorInfo, count_unknown, describe, read_message
from orion_recall.contracts.memory import (
    DELETE_KIND,
    FEEDBACK_KIND,
    STORE_KIND,
    UPDATE_KIND,
    MemoryDeleteV1,
    MemoryReceiptV1,
    MemoryStoreV1,
    MemoryUpdateV1,
    MemoryV1,
    MemoryVerdictV1,
    MemoryWhereV1,
    RecallFeedbackV1,
    RecallReceiptV1,
)
from orion_recall.contracts.recall import (
    DECISION_KIND,
    QUERY_KIND,
    REPLY_KIND,
    BundleStats,
    MemoryBundleV1,
    RecallDecisionV1,
    RecallOptionsV1,
    RecallQueryV1,
    RecallReplyV1,
    ignored_fields,
    v1_decision,
)

__all__ = [
    "DECISION_KIND", "DELETE_KIND", "FEEDBACK_KIND", "QUERY_KIND", "REPLY_KIND", "STORE_KIND",
    "UPDATE_KIND", "BundleStats", "Envelope", "ErrorInfo", "MemoryBundleV1", "MemoryDeleteV1",
    "MemoryReceiptV1", "MemoryStoreV1", "MemoryUpdateV1", "MemoryV1", "MemoryVerdictV1", "MemoryWhereV1",
    "RecallDecisionV1", "RecallFeedbackV1", "RecallOptionsV1", "RecallQueryV1", "RecallReceiptV1",
    "RecallReplyV1", "count_unknown", "describe", "ignored_fields", "read_message", "v1_decision",
]  # fmt: skip
