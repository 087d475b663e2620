-- All that a worker does with the decision log: it adds decisions, removes those that have been kept long enough, and
-- blanks words of what is forgotten; figures are never changed.
REVOKE ALL ON recall_decisions, recall_profiles, recall_queries, recall_selected, recall_candidates, recall_layers,
    recall_stage_ms, recall_trials, recall_follow_ups, recall_by_profile_hour, recall_by_source, recall_dropped,
    recall_memory_usage, recall_feedback_by_profile, recall_texts, recall_never_selected FROM orion_worker;
GRANT SELECT, INSERT, DELETE ON recall_decisions TO orion_worker;
GRANT SELECT ON recall_queries, recall_selected, recall_candidates, recall_layers, recall_stage_ms, recall_trials,
    recall_follow_ups, recall_by_profile_hour, recall_by_source, recall_dropped, recall_memory_usage,
    recall_feedback_by_profile, recall_texts, recall_never_selected TO orion_worker;
GRANT SELECT, INSERT ON recall_profiles TO orion_worker;
GRANT UPDATE (query, intent, error, sources, understood, session_id, node_id, user_id, verb, corr_id, reply_to,
    trace_id, asked, not_replayable, candidates) ON recall_decisions TO orion_worker;
