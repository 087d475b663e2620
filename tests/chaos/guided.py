"""One parser, fuzzed in a process of its own by atheris: inputs that reach new code are kept and changed further.

    python -m tests.chaos.guided PARSER FOLDER [-runs=N] [-max_total_time=S]

The rest are libFuzzer's options. FOLDER has inputs to begin with, and takes what is found. An error that is not the
program's own ends it with a traceback and an exit code.
"""

from __future__ import annotations

import sys

import atheris  # pyright: ignore

from orion_recall.errors import OrionError

with atheris.instrument_imports(include=["orion_recall", "lark"]):  # pyright: ignore
    from tests.chaos.parsers import PARSERS, logged_errors


def main() -> None:
    """Fuzz until the runs or the time are over."""
    read = PARSERS[sys.argv[1]]

    def once(data: bytes) -> None:
        with logged_errors() as told:
            try:
                read(data)
            except OrionError:
                return
            finally:
                assert not told, told

    atheris.Setup([sys.argv[0], *sys.argv[2:]], once)  # pyright: ignore
    atheris.Fuzz()  # pyright: ignore


if __name__ == "__main__":
    main()
