"""The path of one query. Read `pipeline.py` from top to bottom; every stage is a file beside it."""
