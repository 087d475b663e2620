"""The recall of one query. Read `pipeline.py` and `search_pass.py` from top to bottom; each stage has a package."""
