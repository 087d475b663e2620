"""What each view of the decision log is asked: one statement a view, for its page and its test."""

from __future__ import annotations

from collections.abc import Mapping

QUESTIONS: Mapping[str, str] = {
    "recall_queries": """\
SELECT created_at, profile, class, outcome, confidence, kept, latency_ms, query
FROM recall_queries WHERE created_at >= now() - interval '1 day'
ORDER BY latency_ms DESC LIMIT 20""",
    "recall_memory_usage": """\
SELECT tenant, memory_id, selected, bundles, share
FROM recall_memory_usage WHERE day = (now() AT TIME ZONE 'UTC')::date - 1
ORDER BY share DESC, selected DESC LIMIT 20""",
    "recall_stage_ms": """\
SELECT stage, count(*), percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95_ms
FROM recall_stage_ms WHERE created_at >= now() - interval '6 hours'
GROUP BY stage ORDER BY p95_ms DESC""",
    "recall_feedback_by_profile": """\
SELECT profile, profile_hash, sum(messages) AS messages, sum(used) AS used, sum(wrong) AS wrong
FROM recall_feedback_by_profile WHERE day >= (now() AT TIME ZONE 'UTC')::date - 7
GROUP BY 1, 2 ORDER BY messages DESC""",
    "recall_candidates": """\
SELECT decision_id, number, memory_id, place, score, dropped, dropped_for
FROM recall_candidates WHERE created_at >= now() - interval '1 day'
ORDER BY created_at DESC, decision_id, number LIMIT 50""",
    "recall_texts": """\
SELECT decision_id, rank, memory_id, state, text
FROM recall_texts ORDER BY created_at DESC, decision_id, rank LIMIT 20""",
    "recall_never_selected": """\
SELECT memory_id, recorded_at, text
FROM recall_never_selected WHERE tenant = 'default' ORDER BY recorded_at LIMIT 20""",
    "recall_by_profile_hour": """\
SELECT * FROM recall_by_profile_hour
WHERE hour >= now() - interval '1 day' ORDER BY hour DESC, profile""",
    "recall_by_source": """\
SELECT * FROM recall_by_source
WHERE hour >= now() - interval '6 hours' ORDER BY hour DESC, source""",
    "recall_dropped": """\
SELECT * FROM recall_dropped
WHERE day >= (now() AT TIME ZONE 'UTC')::date - 1 ORDER BY day DESC, count DESC""",
    "recall_selected": """\
SELECT source, count(*), avg(score) AS score
FROM recall_selected WHERE created_at >= now() - interval '1 day' GROUP BY source""",
    "recall_trials": """\
SELECT kind, tried_profile, side, count(*), avg(unsure::int) AS unsure, avg((outcome = 'empty')::int) AS empty
FROM recall_trials WHERE created_at >= now() - interval '1 day' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
    "recall_layers": """\
SELECT layer, count(*), avg(ms) AS ms, sum(selected) AS selected
FROM recall_layers WHERE created_at >= now() - interval '1 day' GROUP BY layer""",
    "recall_follow_ups": """\
SELECT decision_id, next_id, seconds, shared_words
FROM recall_follow_ups WHERE tenant = 'default' AND session_id = 's-1' ORDER BY created_at""",
}
# For orion_reader: `decisions sql` runs as orion_analyst.
OF_READERS = ("recall_texts", "recall_never_selected")
