-- What a decision was taken on, so that it can be taken again: what was asked, of which data, by which build.
ALTER TABLE recall_decisions ADD COLUMN asked jsonb;
ALTER TABLE recall_decisions ADD COLUMN read_at jsonb;
ALTER TABLE recall_decisions ADD COLUMN build jsonb;
ALTER TABLE recall_decisions ADD COLUMN not_replayable text;

COMMENT ON COLUMN recall_decisions.asked IS
    'What was asked beside the text: {options, turn, lane, scope: {name, session_id, user_id, agent_id, run_id, kinds, tags}, '
    'clock, zone, limits: {search_ms}}. options, turn and lane are those of the message, without what is absent; scope is the '
    'one that was searched, clock what was now, in UTC; they are absent where nothing was recalled. Tags, context and the '
    'turn''s text are absent where query text is not kept.';
COMMENT ON COLUMN recall_decisions.read_at IS
    'The positions in the outbox that the copies had applied when the search began: {index, graph}.';
COMMENT ON COLUMN recall_decisions.build IS
    'What decided: {version, model, weights: the first digits of their hash, extractor}.';
COMMENT ON COLUMN recall_decisions.not_replayable IS
    'Why the query cannot be asked again as it was; null where it can, and in decisions of versions before this column.';

CREATE TABLE recall_profiles (
    hash       text PRIMARY KEY,
    profile    text NOT NULL,
    text       text NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE recall_profiles IS 'The text behind every profile_hash that a worker has served.';
COMMENT ON COLUMN recall_profiles.hash IS 'The hash of the profile''s content: recall_decisions.profile_hash.';
COMMENT ON COLUMN recall_profiles.profile IS 'The profile''s name.';
COMMENT ON COLUMN recall_profiles.text IS 'The profile as YAML, every value written out; it can be used as it is.';
COMMENT ON COLUMN recall_profiles.first_seen IS 'When a worker first wrote it down.';

-- As for the views; where the role could not be made, an administrator grants it with the others.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_analyst') THEN
        GRANT SELECT ON recall_profiles TO orion_analyst;
    END IF;
END
$$;
