-- Memories that take the place of older ones, as it was stated. The memories themselves stay as they are.
CREATE TABLE memory_successions (
    tenant text NOT NULL,
    newer text NOT NULL,
    older text NOT NULL,
    probability real NOT NULL DEFAULT 1,
    state text NOT NULL DEFAULT 'stated' CHECK (state IN ('stated', 'undone')),
    reason text NOT NULL CHECK (reason IN ('supersedes', 'by_person', 'by_extractor')),
    evidence text[] NOT NULL DEFAULT '{}',
    actor text,
    at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz,
    PRIMARY KEY (tenant, newer, older),
    CHECK (newer <> older)
);
CREATE INDEX memory_successions_by_older ON memory_successions (tenant, older);

COMMENT ON TABLE memory_successions IS 'Successions: a newer memory that takes the place of an older one. Nothing is deleted or changed by one.';
COMMENT ON COLUMN memory_successions.probability IS 'How sure it is, in [0, 1]; 1 for what is stated.';
COMMENT ON COLUMN memory_successions.state IS 'stated; or undone: by a person, and not stated again by an extractor.';
COMMENT ON COLUMN memory_successions.reason IS 'Who states it: by_person, by_extractor, or supersedes: taken over from a memory that the newer one supersedes.';
COMMENT ON COLUMN memory_successions.evidence IS 'The ids of the memories that state it.';
