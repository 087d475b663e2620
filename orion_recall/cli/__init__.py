"""The commands, one module each, imported when called: `main.py` names the module of each."""
