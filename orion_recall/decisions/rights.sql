-- All that a worker does with the decision log: it adds decisions, and removes those that have been kept long enough.
REVOKE ALL ON recall_decisions, recall_by_profile_hour, recall_by_source, recall_dropped, recall_selected,
    recall_layers, recall_shadows FROM orion_worker;
GRANT SELECT, INSERT, DELETE ON recall_decisions TO orion_worker;
GRANT SELECT ON recall_by_profile_hour, recall_by_source, recall_dropped, recall_selected, recall_layers, recall_shadows
    TO orion_worker;
