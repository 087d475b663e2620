-- All that a worker does with the record. Of a memory it changes what becomes of it, and never whose it is; the
-- outbox is only added to.
REVOKE ALL ON memories, memory_history, memory_requests, outbox, projections, memory_access, recall_feedback,
    copy_requests, collapse_mirror, entity_merges FROM orion_worker;
GRANT SELECT, INSERT ON memories, memory_history, memory_requests, outbox, recall_feedback TO orion_worker;
GRANT UPDATE (text, kind, title, speaker, session_id, node_id, user_id, agent_id, run_id, occurred_at,
    occurred_until, mentioned_at, tags, entities, statements, source, uri, metadata, text_hash,
    content_hash, confidence, given_entities, extracted_by, extraction_note, version, updated_at, superseded_by,
    deleted_at, times, guessed_kind,
    kind_confidence, restated, restated_from) ON memories TO orion_worker;
GRANT UPDATE (before) ON memory_history TO orion_worker;
-- An answer that was given is not changed, and goes when it is old.
GRANT DELETE ON memory_requests TO orion_worker;
GRANT SELECT, INSERT, UPDATE ON projections, memory_access TO orion_worker;
-- A copy that is gone is forgotten: what a live one says of itself comes again with its next sign of life.
GRANT DELETE ON projections TO orion_worker;
-- What is asked of the copies, and its answers: who asks takes them away.
GRANT SELECT, INSERT, UPDATE, DELETE ON copy_requests TO orion_worker;
GRANT SELECT ON collapse_mirror TO orion_worker;
-- A lock is a row that is locked: nobody else has a right to it.
REVOKE ALL ON write_locks FROM orion_worker;
GRANT SELECT, INSERT, UPDATE ON write_locks TO orion_worker;
GRANT USAGE ON SEQUENCE memories_seq_seq, outbox_position_seq, memory_history_id_seq, recall_feedback_id_seq,
    copy_requests_id_seq TO orion_worker;
REVOKE ALL ON memory_extractions FROM orion_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON memory_extractions TO orion_worker;
GRANT USAGE ON SEQUENCE memory_extractions_ticket_seq TO orion_worker;
-- A merge is undone, and taken back as if it had not been only where its names are forgotten.
GRANT SELECT, INSERT ON entity_merges TO orion_worker;
GRANT UPDATE (canonical, canonical_folded, undone_at, undone_by) ON entity_merges TO orion_worker;
GRANT USAGE ON SEQUENCE entity_merges_id_seq TO orion_worker;
-- Successions are stated again when a memory changes, and go with an erased one.
REVOKE ALL ON memory_successions FROM orion_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON memory_successions TO orion_worker;
REVOKE ALL ON memory_succession_history FROM orion_worker;
GRANT SELECT, INSERT, DELETE ON memory_succession_history TO orion_worker;
GRANT USAGE ON SEQUENCE memory_succession_history_id_seq TO orion_worker;
-- To forget takes away more than to delete: rows that are about a memory, what was said of it, and who did it.
REVOKE ALL ON memory_forgets, memory_forget_ids FROM orion_worker;
GRANT SELECT, INSERT, UPDATE ON memory_forgets TO orion_worker;
GRANT SELECT, INSERT, DELETE ON memory_forget_ids TO orion_worker;
GRANT USAGE ON SEQUENCE memory_forgets_id_seq TO orion_worker;
GRANT UPDATE (actor, lineage) ON memory_history TO orion_worker;
GRANT UPDATE (note, actor) ON recall_feedback TO orion_worker;
GRANT DELETE ON memory_access, entity_merges TO orion_worker;
