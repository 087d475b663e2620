"""`orion-recall decisions`: the decision log."""
