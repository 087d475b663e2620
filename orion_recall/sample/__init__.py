"""The demo's 73 sample memories, about a small harbour town.

`memories.jsonl` has one memory a line, in the import format. Instead of `occurred_at` a line has `ago`, an ISO 8601
duration; `timed.py` turns it into a time, and says which.
"""
