-- What a memory says in a sentence that is understood by itself, where a language model read it.
ALTER TABLE memories ADD COLUMN restated text, ADD COLUMN restated_from text[];
COMMENT ON COLUMN memories.restated IS 'The text restated with names and days by a language model; searched beside the text, and never shown.';
COMMENT ON COLUMN memories.restated_from IS 'The ids of the other memories that a language model restated it from, or took its names from: it is read again when one of them changes or goes.';
CREATE INDEX memories_by_restated_from ON memories USING gin (restated_from) WHERE restated_from IS NOT NULL;
