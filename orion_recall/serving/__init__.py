"""A running worker: what opens the stores, the path of one message, and what is seen from outside."""
