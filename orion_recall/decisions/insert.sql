-- $1: the envelopes as they came off the bus, as bytea[]. Postgres takes them apart; the program does not.
-- What is absent gets the column's default; what is of the wrong type is refused.
INSERT INTO recall_decisions (
    id, corr_id, session_id, node_id, verb, profile, query, selected_ids, backend_counts, latency_ms, dropped,
    created_at, outcome, error, tenant, scope, user_id, intent, profile_requested, profile_hash, profile_fallback,
    sources, selected, stage_ms, tokens, query_chars, unknown_fields, deliveries, entry_id, reply_to, trace_id, worker,
    understood, confidence, cascade, no_answer, strategy, shadow_of, answer_probability, canary,
    asked, read_at, build, not_replayable, candidates, unsure, weights
)
SELECT d.id, d.corr_id, d.session_id, d.node_id, d.verb, d.profile, d.query, coalesce(d.selected_ids, '[]'),
       coalesce(d.backend_counts, '{}'), d.latency_ms, coalesce(d.dropped, '{}'), d.created_at, d.outcome, d.error,
       d.tenant, d.scope, d.user_id, d.intent, d.profile_requested, d.profile_hash,
       coalesce(d.profile_fallback, false), coalesce(d.sources, '{}'), coalesce(d.selected, '[]'),
       coalesce(d.stage_ms, '{}'), coalesce(d.tokens, 0), coalesce(d.query_chars, 0), coalesce(d.unknown_fields, 0),
       coalesce(d.deliveries, 1), d.entry_id, d.reply_to, d.trace_id, d.worker, d.understood,
       d.confidence, d.cascade, d.no_answer, d.strategy, d.shadow_of, d.answer_probability, d.canary,
       d.asked, d.read_at, d.build, d.not_replayable, d.candidates, coalesce(d.unsure, false), d.weights
FROM unnest($1::bytea[]) AS raw
CROSS JOIN LATERAL jsonb_to_record(convert_from(raw, 'UTF8')::jsonb -> 'payload') AS d (
    id uuid, corr_id text, session_id text, node_id text, verb text, profile text, query text, selected_ids jsonb,
    backend_counts jsonb, latency_ms double precision, dropped jsonb, created_at timestamptz, outcome text,
    error text, tenant text, scope text, user_id text, intent text, profile_requested text, profile_hash text,
    profile_fallback boolean, sources jsonb, selected jsonb, stage_ms jsonb, tokens integer, query_chars integer,
    unknown_fields integer, deliveries integer, entry_id text, reply_to text, trace_id text, worker text,
    understood jsonb, confidence double precision, cascade jsonb, no_answer jsonb, strategy text, shadow_of uuid,
    answer_probability double precision, canary jsonb, asked jsonb, read_at jsonb, build jsonb, not_replayable text,
    candidates jsonb, unsure boolean, weights jsonb
)
ON CONFLICT (id) DO NOTHING
