-- Names that mean the same. A memory keeps what it says; the copies show it under the name that all were merged into.
CREATE TABLE entity_merges (
    id bigserial PRIMARY KEY,
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('entity', 'relation')),
    alias text NOT NULL,
    alias_label text NOT NULL,
    merged_into text NOT NULL,
    canonical text NOT NULL,
    canonical_folded text NOT NULL,
    scores jsonb NOT NULL DEFAULT '{}',
    actor text,
    at timestamptz NOT NULL DEFAULT now(),
    undone_at timestamptz,
    undone_by text
);
-- A name is merged into one other at a time.
CREATE UNIQUE INDEX entity_merges_by_alias ON entity_merges (tenant, kind, alias) WHERE undone_at IS NULL;
CREATE INDEX entity_merges_by_canonical ON entity_merges (tenant, kind, canonical_folded) WHERE undone_at IS NULL;

COMMENT ON TABLE entity_merges IS 'Names of entities and relations that were merged into others; those not undone are in force.';
COMMENT ON COLUMN entity_merges.alias IS 'The name that was merged, case folded.';
COMMENT ON COLUMN entity_merges.alias_label IS 'The same as it is written.';
COMMENT ON COLUMN entity_merges.merged_into IS 'The name that was asked for.';
COMMENT ON COLUMN entity_merges.canonical IS 'The name that is shown while the merge is in force: the end of the chain, where merged_into was merged itself.';
COMMENT ON COLUMN entity_merges.canonical_folded IS 'The same, case folded.';
COMMENT ON COLUMN entity_merges.scores IS 'What it was proposed by: string, cosine; nothing when it was asked for by name.';
