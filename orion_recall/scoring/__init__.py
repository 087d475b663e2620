"""Score parts: the named numbers from 0 to 1 of which a memory's score is the weighted mean."""
