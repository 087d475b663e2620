"""Evaluation of recall: runs over judged queries, their scores, and comparisons of runs."""
