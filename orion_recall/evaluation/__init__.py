"""How good recall is: runs over judged queries, their scores, and two runs compared."""
