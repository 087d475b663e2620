"""`orion-recall graph`: the graph that the memories make. A command a file."""
