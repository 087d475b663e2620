"""`orion-recall doctor`: what is installed, what the servers are, and what to do about it."""
