"""Memory sources, one backend a file, behind the Protocols of `source.py`."""
