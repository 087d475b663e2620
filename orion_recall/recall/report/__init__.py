"""Reports of a recall: the reply, the decision and the explanation."""
