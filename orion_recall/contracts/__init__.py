"""Contracts: the messages that cross the bus, as models that are the source of the JSON Schemas in contracts/.

Input is lenient in names (short and long ones; unknown fields are ignored and counted) and strict in types: a wrong
type in a known field is an error that names the field. Output always uses the long names. A reply to a query
without `options` has the V1 fields only: its readers may be strict.
"""

from orion_recall.contracts.decision import (
    DECISION_KIND,
    CanaryV1,
    CandidateV1,
    RecallDecisionV1,
    SelectedV1,
    v1_decision,
)
from orion_recall.contracts.envelope import Envelope, ErrorInfo, causality_links, is_link
from orion_recall.contracts.fields import (
    MEMORY_KINDS,
    Identifier,
    ScopeName,
    count_unknown,
    describe,
    envelope_moment,
    read_message,
    refuse_unknown,
    refuse_unknown_names,
    whole_ms,
    zoned_moment,
)
from orion_recall.contracts.memory import (
    CHANGEABLE,
    DELETE_KIND,
    FEEDBACK_KIND,
    FEEDBACK_RECEIPT_KIND,
    RECEIPT_KIND,
    STORE_KIND,
    UNCHANGEABLE,
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
    QUERY_ALIASES,
    QUERY_KIND,
    REPLY_KIND,
    BundleStats,
    CascadeStepV1,
    CascadeV1,
    ChunkInfoV1,
    ConfidenceV1,
    EntityStateV1,
    ExcludedTurn,
    Include,
    MemoryBundleV1,
    MemoryItemV1,
    NoAnswerV1,
    RecallOptionsV1,
    RecallQueryV1,
    RecallReplyV1,
    SourceStats,
    ignored_fields,
)

__all__ = [
    "CHANGEABLE", "DECISION_KIND", "DELETE_KIND", "FEEDBACK_KIND", "FEEDBACK_RECEIPT_KIND", "MEMORY_KINDS",
    "QUERY_ALIASES", "QUERY_KIND", "RECEIPT_KIND", "REPLY_KIND", "STORE_KIND", "UNCHANGEABLE", "UPDATE_KIND",
    "BundleStats", "CanaryV1", "CandidateV1", "CascadeStepV1", "CascadeV1", "ChunkInfoV1", "ConfidenceV1",
    "EntityStateV1", "Envelope", "ErrorInfo", "ExcludedTurn", "Identifier", "Include", "MemoryBundleV1",
    "MemoryDeleteV1", "MemoryItemV1", "MemoryReceiptV1", "MemoryStoreV1", "MemoryUpdateV1", "MemoryV1",
    "MemoryVerdictV1", "MemoryWhereV1", "NoAnswerV1", "RecallDecisionV1", "RecallFeedbackV1", "RecallOptionsV1",
    "RecallQueryV1", "RecallReceiptV1", "RecallReplyV1", "ScopeName", "SelectedV1", "SourceStats",
    "causality_links", "count_unknown", "describe", "envelope_moment", "ignored_fields", "is_link",
    "read_message", "refuse_unknown", "refuse_unknown_names", "v1_decision", "whole_ms",
    "zoned_moment",
]  # fmt: skip
