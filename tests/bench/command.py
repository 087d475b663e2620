"""Shared code of the bench's commands: progress, options, a folder for engines, the result as table and JSON."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from orion_recall.cli.output import console

R = TypeVar("R")

_began = time.perf_counter()


def seconds_so_far() -> float:
    return time.perf_counter() - _began


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"[{seconds_so_far():6.1f} s] {text}", file=sys.stderr, flush=True)


def parser_of(description: str | None, *, rounds: int | None = None) -> argparse.ArgumentParser:
    """With `--json`; with `rounds` as a default, the options of what measures in rounds of cells."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="write everything there, too")
    if rounds is not None:
        parser.add_argument("--rounds", type=at_least(1), default=rounds)
        parser.add_argument("--seconds-per-cell", type=above_zero, default=3.0)
        parser.add_argument("--profile", default="reflect.v1")
    return parser


def at_least(least: int) -> Callable[[str], int]:
    """For `type` of an argument: a whole number that is not less."""

    def read(text: str) -> int:
        if (number := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return read


def above_zero(text: str) -> float:
    if (number := float(text)) <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def sizes(text: str) -> list[int]:
    """Numbers of memories, separated by commas, from the smallest; none under 100. For `type` of an argument."""
    found = sorted({int(size) for size in text.split(",")})
    if found[0] < 100:
        raise argparse.ArgumentTypeError("sizes from 100")
    return found


@contextlib.contextmanager
def engines_folder() -> Generator[Path]:
    """A folder for engines, deleted at the end of the block.

    Not a private one: as root, the database runs as another user who must reach its data.
    """
    folder = Path(tempfile.mkdtemp(prefix="orion-bench-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def finish(
    measuring: Coroutine[Any, Any, R],
    *,
    show: Callable[[R, Console], None],
    as_json: Callable[[R], dict[str, Any]],
    file: Path | None,
) -> None:
    """Measure, print what came out, and write it to the file. After SIGTERM, too, everything is closed."""
    result = asyncio.run(_ended_by_sigterm(measuring))
    show(result, console(width=180))  # tables of ten columns, kept in files
    if file is not None:
        file.write_text(json.dumps(as_json(result), indent=2) + "\n", "utf-8")


async def _ended_by_sigterm(measuring: Coroutine[Any, Any, R]) -> R:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await measuring
