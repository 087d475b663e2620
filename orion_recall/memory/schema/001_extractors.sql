-- Other packages may add extractors.
ALTER TABLE memory_extractions DROP CONSTRAINT memory_extractions_extractor_check;
