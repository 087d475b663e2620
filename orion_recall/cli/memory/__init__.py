"""`orion-recall memory`: the memories in the record, and their copies in index and graph. One file a command."""
