-- What a text says is found again, later, by something slower than what finds it while it is stored.
ALTER TABLE memories ADD COLUMN times jsonb NOT NULL DEFAULT '[]';
COMMENT ON COLUMN memories.times IS 'Times that the text names: [{"text", "since", "until"}], half-open, in epoch seconds.';

CREATE TABLE memory_extractions (
    tenant text NOT NULL,
    memory_id text NOT NULL,
    extractor text NOT NULL CHECK (extractor IN ('light', 'spacy', 'llm')),
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    ticket bigserial NOT NULL,
    PRIMARY KEY (tenant, memory_id)
);
CREATE INDEX memory_extractions_by_time ON memory_extractions (extractor, due_at, ticket);

COMMENT ON TABLE memory_extractions IS 'Memories whose names and statements are to be found again, by which extractor. A row goes when that is done.';
COMMENT ON COLUMN memory_extractions.due_at IS 'When it may be taken up: whoever takes it moves this on, so that another does it when that one is gone.';
COMMENT ON COLUMN memory_extractions.attempts IS 'How often it was taken up.';
COMMENT ON COLUMN memory_extractions.ticket IS 'Another one each time it is taken up or due again: only the last taker may end it.';
