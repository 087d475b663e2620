"""`orion-recall memory`: memories in the record, and their copies in index and graph. One module per command."""
