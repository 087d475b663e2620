-- The kind of a memory whose sender gave none is read from its text.
ALTER TABLE memories ADD COLUMN kind_confidence real;

COMMENT ON COLUMN memories.kind_confidence IS 'How sure the kind is that was read from the text, in [0, 1]; null when the sender gave it, or the memory is older than that.';

-- How often a memory was of use is asked for by its id.
CREATE INDEX recall_feedback_by_used ON recall_feedback USING gin (used);
CREATE INDEX recall_feedback_by_wrong ON recall_feedback USING gin (wrong);
