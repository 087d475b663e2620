-- The same rows, found by the index on selected_ids: an anti-join read the whole log for each memory. CASE keeps the
-- order: the log is only asked for memories that were never counted. It counts, because the planner takes a condition
-- that any row of the log might meet for one that the first rows meet, and reads these without the index.
CREATE OR REPLACE VIEW recall_never_selected AS
SELECT m.tenant,
       m.id AS memory_id,
       m.kind,
       m.recorded_at,
       m.text
FROM memories AS m
WHERE m.live
  AND CASE WHEN EXISTS (SELECT FROM memory_access AS a WHERE a.tenant = m.tenant AND a.id = m.id) THEN false
      ELSE (SELECT count(*) FROM recall_decisions AS d
            WHERE d.shadow_of IS NULL AND d.tenant = m.tenant AND d.selected_ids @> jsonb_build_array(m.id)) = 0 END;
