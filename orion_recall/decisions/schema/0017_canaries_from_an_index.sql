-- The view recall_canaries reads every answer of every trial: from this index alone, in the order of its groups, where it
-- read a page of the table for each and sorted them. While it is built, writing to the table waits (decisions stay on the
-- bus) and reading does not. So the index that it replaces is dropped in the next file: a transaction that drops one lets
-- nobody read.
CREATE INDEX recall_decisions_canaries ON recall_decisions (canary)
    INCLUDE (created_at, outcome, latency_ms) WHERE canary IS NOT NULL AND shadow_of IS NULL;
