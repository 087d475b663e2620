-- The kind of a memory whose sender gave none is guessed from its text.
ALTER TABLE memories ADD COLUMN guessed_kind text, ADD COLUMN kind_confidence real;

COMMENT ON COLUMN memories.guessed_kind IS 'The kind that was read from the text: index and record find the memory as this one, too.';
COMMENT ON COLUMN memories.kind_confidence IS 'How sure the guess is, in [0, 1]; null when the sender gave the kind, or the memory is older than guesses.';

-- How often a memory was of use is asked for by its id.
CREATE INDEX recall_feedback_by_used ON recall_feedback USING gin (used);
CREATE INDEX recall_feedback_by_wrong ON recall_feedback USING gin (wrong);
