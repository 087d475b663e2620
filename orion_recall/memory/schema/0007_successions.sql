-- Memories that say something new about the same thing as older ones. The memories themselves stay as they are.
CREATE TABLE memory_successions (
    tenant text NOT NULL,
    newer text NOT NULL,
    older text NOT NULL,
    confidence real NOT NULL,
    state text NOT NULL DEFAULT 'candidate' CHECK (state IN ('candidate', 'confirmed', 'undone')),
    found_by text NOT NULL CHECK (found_by IN ('rule', 'hand', 'supersedes')),
    reason text NOT NULL DEFAULT '',
    actor text,
    at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz,
    PRIMARY KEY (tenant, newer, older),
    CHECK (newer <> older)
);
CREATE INDEX memory_successions_by_older ON memory_successions (tenant, older);

COMMENT ON TABLE memory_successions IS 'Successions: a newer memory that says something new about the same thing as an older one. Nothing is deleted or changed by one.';
COMMENT ON COLUMN memory_successions.confidence IS 'How confident the recognition is, in [0, 1]; 1 when a person says so.';
COMMENT ON COLUMN memory_successions.state IS 'candidate: recognised; confirmed: by a person; undone: by a person, and not recognised again.';
COMMENT ON COLUMN memory_successions.found_by IS 'rule: the recognition; hand: a person; supersedes: taken over from a memory that the newer one supersedes.';
COMMENT ON COLUMN memory_successions.reason IS 'What spoke for it: cues, and the words that both share.';

CREATE TABLE succession_progress (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    step bigint NOT NULL DEFAULT 0
);
INSERT INTO succession_progress DEFAULT VALUES;
COMMENT ON TABLE succession_progress IS 'How far the recognition of successions has come in the steps of memory_history.';
