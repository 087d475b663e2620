-- The hour and the day of the views in B-trees. A summary of a BRIN index that was interrupted (autosummarize is, by
-- whoever waits for a lock) leaves a mark, and from that place on a scan takes every page of the table: on ten million
-- decisions the last day of recall_by_profile_hour took 17 s. Equal values are stored once, so these indexes are small.
DROP INDEX recall_decisions_hour, recall_decisions_day;
CREATE INDEX recall_decisions_hour ON recall_decisions ((date_trunc('hour', created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'));
CREATE INDEX recall_decisions_day ON recall_decisions (((created_at AT TIME ZONE 'UTC')::date));
