-- A confidence as it was given: of 0.8 a real has kept 0.800000011920929, and a memory was not what its sender gave.
ALTER TABLE memories ALTER COLUMN confidence TYPE double precision USING confidence::text::double precision;
