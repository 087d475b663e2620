-- The mean lengths of a tenant's documents, which the keyword weights of every copy of the index are made with.
CREATE TABLE keyword_lengths (
    tenant text PRIMARY KEY,
    text_terms double precision NOT NULL CHECK (text_terms >= 0),
    context_terms double precision NOT NULL CHECK (context_terms >= 0),
    measured_at timestamptz NOT NULL
);

COMMENT ON TABLE keyword_lengths IS 'Mean lengths of documents by tenant, for ORION_KEYWORD_WEIGHTS with length=corpus; `memory rebuild index` measures them.';
COMMENT ON COLUMN keyword_lengths.text_terms IS 'Terms of a memory, its speaker and title, on average: with repetitions, without stop words.';
COMMENT ON COLUMN keyword_lengths.context_terms IS 'Terms of a memory together with those of its neighbouring turns, on average.';
COMMENT ON COLUMN keyword_lengths.measured_at IS 'When all tenants were measured. An index of another measurement is refused.';
