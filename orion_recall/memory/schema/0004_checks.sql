-- What is asked of whoever keeps a copy of the record. A copy in a folder is locked by its worker: it alone can look.
CREATE TABLE copy_requests (
    id bigserial PRIMARY KEY,
    copy text NOT NULL,
    kind text NOT NULL,
    task text NOT NULL CHECK (task IN ('check', 'repair', 'rewrite', 'take')),
    asked_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz,
    done bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    ended_at timestamptz,
    result jsonb,
    error text
);
CREATE INDEX copy_requests_open ON copy_requests (copy, kind, id) WHERE ended_at IS NULL;

COMMENT ON TABLE copy_requests IS 'Requests to the workers that keep copies of index and graph, and their answers; the one who asks takes them away.';
COMMENT ON COLUMN copy_requests.task IS 'check: compare with the record; repair: and mend; rewrite: write all anew in place; take: the copy built beside takes its place.';
COMMENT ON COLUMN copy_requests.seen_at IS 'The last sign of life of the worker that is at it.';
