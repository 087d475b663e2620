"""The reply to small talk: whether memory need be asked at all, decided by rule, before anything is sent."""

from __future__ import annotations

from orion_recall.contracts.confidence import NoAnswerV1
from orion_recall.contracts.recall import BundleStats, MemoryBundleV1, RecallQueryV1, RecallReplyV1
from orion_recall.text.normal import words
from orion_recall.text.small_talk import small_talk


def reply_without_asking(query: RecallQueryV1) -> RecallReplyV1 | None:
    """The reply to a query that asks nothing of memory: an empty bundle with the reason; None for all others.

    A query with words in its intent asks something, whatever its fragment is.
    """
    if (query.intent and words(query.intent)) or (kind := small_talk(query.fragment)) is None:
        return None
    no_answer = NoAnswerV1(reason=kind, near_misses=0)
    stats = BundleStats(
        backend_counts={}, latency_ms=0, profile=query.profile or "", outcome="empty", no_answer=no_answer
    )
    return RecallReplyV1(bundle=MemoryBundleV1(rendered="", items=[], stats=stats))
