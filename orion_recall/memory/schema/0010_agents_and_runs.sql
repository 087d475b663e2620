-- Memories can be asked for by the agent and the run that they were stored with, on the timeline as well.
CREATE OR REPLACE VIEW collapse_mirror AS
    SELECT tenant, id, ts, text, title, session_id, node_id, user_id, kind, speaker, uri, tags, search, agent_id, run_id
    FROM memories WHERE live;
