-- All that a worker does with the record. The record is written once: memories and outbox are never changed in place.
REVOKE ALL ON memories, outbox, projections, memory_access, collapse_mirror FROM orion_worker;
GRANT SELECT, INSERT ON memories, outbox TO orion_worker;
GRANT SELECT, INSERT, UPDATE ON projections, memory_access TO orion_worker;
-- A copy that is gone is forgotten: what a live one says of itself comes again with its next sign of life.
GRANT DELETE ON projections TO orion_worker;
GRANT SELECT ON collapse_mirror TO orion_worker;
GRANT USAGE ON SEQUENCE memories_seq_seq, outbox_position_seq TO orion_worker;
