"""`orion-recall graph`: the memory graph. One module per command."""
