"""Adds judged queries to a file, each decision once, as `orion-recall eval` reads it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from orion_recall.errors import EvaluationError

FILE_NAME = "judged.jsonl"


def add_judged(path: Path, line: Mapping[str, Any]) -> bool:
    """Append the line, unless its `query_id` is in the file already: then False.

    The file is made when it is absent, for its owner alone. Several programs may add to it at once. EvaluationError
    where it cannot be read or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            ends_whole = True
            for known in file:
                if _query_id(known) == line["query_id"]:
                    return False
                ends_whole = known.endswith(b"\n")
            text = json.dumps(line, ensure_ascii=False) + "\n"
            file.write(("" if ends_whole else "\n").encode() + text.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise EvaluationError(f"{path}: {error.strerror or type(error).__name__}") from error
    return True


def _query_id(line: bytes) -> object:
    """The id of a line; None where it has none, which is for whoever reads the file to say."""
    try:
        told: Any = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", told).get("query_id") if isinstance(told, dict) else None
