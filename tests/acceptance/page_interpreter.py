"""The Python of one page of the documentation: a process that runs its blocks in turn, with the same names.

It reads a JSON object a line, {"code", "name"}, and answers each with {"out", "failed"}.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import json
import os
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import Any


def main() -> None:
    """Run blocks until standard input ends."""
    names: dict[str, Any] = {
        "__name__": "page",
        "bus_url": os.environ["BUS_URL"],
        "postgres_dsn": os.environ["POSTGRES_DSN"],
    }
    with asyncio.Runner() as loop:
        for line in sys.stdin:
            block = json.loads(line)
            out = io.StringIO()
            with redirect_stdout(out), redirect_stderr(out):
                failed = not _run(block["code"], block["name"], names, loop)
            print(json.dumps({"out": out.getvalue(), "failed": failed}), flush=True)


def _run(code: str, name: str, names: dict[str, Any], loop: asyncio.Runner) -> bool:
    try:
        compiled = compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result: Any = eval(compiled, names)
        if inspect.iscoroutine(result):  # the block awaits something
            loop.run(result)
    except BaseException:
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    main()
