"""`orion-recall ask`: one question over the bus, and why its answer is as it is."""
