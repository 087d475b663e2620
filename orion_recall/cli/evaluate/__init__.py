"""`orion-recall eval`: recall measured on judged queries. A command a file."""
