-- A worker can be asked to recall the query of a decision again: it alone can open the copies in its folder.
ALTER TABLE copy_requests ADD COLUMN given jsonb;
ALTER TABLE copy_requests DROP CONSTRAINT copy_requests_task_check;
ALTER TABLE copy_requests ADD CONSTRAINT copy_requests_task_check
    CHECK (task IN ('check', 'repair', 'rewrite', 'take', 'compact', 'recall'));
COMMENT ON COLUMN copy_requests.task IS 'check: compare with the record; repair: and mend; rewrite: write all anew in place; take: the copy built beside takes its place; compact: rewrite its files without what was deleted; recall: recall the query of a decision again.';
COMMENT ON COLUMN copy_requests.given IS 'What the task is about: of recall the ids of the decision and of a memory.';
