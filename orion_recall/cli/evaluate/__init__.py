"""`orion-recall eval`: recall measured on judged queries. One module per command."""
