"""The demo's memories: a small harbour town, two broken things and the people who mend them.

`memories.jsonl` has one memory a line, in the import format. Instead of `occurred_at` a line has `ago`, an ISO 8601
duration; `timed.py` turns it into a time, and says which.
"""
