-- A memory that takes names from turns before it is read again when one of them goes, restated or not.
COMMENT ON COLUMN memories.restated_from IS 'The ids of the other memories that a language model restated it from, or took its names from: it is read again when one of them changes or goes.';
DROP INDEX memories_by_restated_from;
CREATE INDEX memories_by_restated_from ON memories USING gin (restated_from) WHERE restated_from IS NOT NULL;
