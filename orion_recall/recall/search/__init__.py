"""The search step: what is asked of the sources, all of them at once, and the follow-up search."""
