"""A peer in a process of its own: requests and replies are JSON, one a line, over a pipe.

    python -m tests.bench.peers.serve NAME FOLDER [--postgres DSN] [--onnx-model FILE]

The first line out says that the peer is open, or why not. The clock of a question runs in here, around the peer's
own call, so that the pipe costs it nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from tests.bench.peers.peer import KINDS, ONE_THREAD, Kind, Peer, Place, Told, open_kind


def cell(peer: Peer, questions: Sequence[str], in_flight: int, seconds: float, k: int) -> dict[str, Any]:
    """Questions by as many threads as are to be in flight.

    Each thread asks once at least, and begins no question after `seconds`. `taken_s` has None for a failed one.
    """
    left = iter(questions)
    lock = threading.Lock()
    taken_s: list[float | None] = []
    began = time.perf_counter()

    def ask_on() -> None:
        while True:
            with lock:
                question = next(left, None)
            if question is None:
                return
            started = time.perf_counter()
            try:
                peer.ask(question, k, None)
            except Exception:  # a failed question is counted, whatever the library raised
                traceback.print_exc()
                taken_s.append(None)
            else:
                taken_s.append(time.perf_counter() - started)
            if time.perf_counter() >= began + seconds:
                return

    threads = [threading.Thread(target=ask_on) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"taken_s": taken_s, "passed_s": time.perf_counter() - began}


def answer(peer: Peer, request: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to one request: `fill`, `ask`, `warm` or `cell`."""
    match request["do"]:
        case "fill":
            began = time.perf_counter()
            peer.fill([Told(**memory) for memory in request["memories"]])
            return {"seconds": time.perf_counter() - began}
        case "ask":
            return {"ids": peer.ask(request["question"], request["k"], request["at"])}
        case "warm":
            return {"ids": [peer.ask(question, request["k"], None) for question in request["questions"]]}
        case "cell":
            return cell(peer, request["questions"], request["in_flight"], request["seconds"], request["k"])
        case unknown:
            raise ValueError(f"unknown request: {unknown}")


def serve(kind: Kind, place: Place, requests: Iterator[str], out: TextIO) -> None:
    """Opens the peer and answers until the requests end. A reply with `error` says what went wrong."""

    def reply(fields: Mapping[str, Any]) -> None:
        print(json.dumps(fields), file=out, flush=True)

    try:
        versions = {name: importlib.metadata.version(name) for name in kind.packages}
        peer = open_kind(kind, place)
    except Exception as error:  # any failure of another's library is a reason to skip it
        traceback.print_exc()
        reply({"error": reason(error)})
        return
    with contextlib.closing(peer):
        reply({"versions": versions, "pids": peer.pids()})
        for line in requests:
            try:
                reply(answer(peer, json.loads(line)))
            except Exception as error:  # likewise
                traceback.print_exc()
                reply({"error": reason(error)})


def reason(error: Exception) -> str:
    """An error in one line of at most 200 characters."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}"[:200]


def main() -> None:
    """Replies have a pipe of their own: what libraries print goes to the log."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=tuple(KINDS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--postgres")
    parser.add_argument("--onnx-model", type=Path)
    read = parser.parse_args()
    place = Place(folder=read.folder, postgres_dsn=read.postgres, onnx_model=read.onnx_model)
    os.environ.update(ONE_THREAD)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        serve(KINDS[read.name], place, iter(sys.stdin), out)


if __name__ == "__main__":
    main()
