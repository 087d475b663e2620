"""`python -m orion_recall`: the same as `orion-recall`."""

from __future__ import annotations

from orion_recall.cli.main import main

if __name__ == "__main__":
    main()
