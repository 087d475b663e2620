"""`orion-recall memory`: what is remembered, and its copies. A command a file."""
