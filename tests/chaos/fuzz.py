"""Generated inputs for everything that reads texts of others, and giants up to the size limit.

Two generators: a mutator that changes valid inputs at random, and crafted giants, sent to a worker over the bus
(tests/chaos/giants.py). Hypothesis tries the parsers in the unit tests. A fault is an exception that is not the
program's own, one that was caught and logged as unexpected, and the end of a process. Times of single inputs are
processor time: load does not lengthen them.
"""

from __future__ import annotations

import asyncio
import random
import resource
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

from orion_recall.errors import OrionError
from tests.bench.command import say
from tests.chaos import giants as crafted
from tests.chaos.inputs import mutated, seeds
from tests.chaos.parsers import PARSERS, Parser, logged_errors
from tests.chaos.trial import Trial, at_most

_LONGEST_MS = 100.0
_CHUNK = 400
_KEPT = 10


@dataclass(slots=True)
class Tried:
    """What was read so far: how many inputs, what was wrong, and the longest by parser in milliseconds."""

    count: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    longest: dict[str, tuple[float, bytes]] = field(default_factory=dict[str, tuple[float, bytes]])

    def one(self, name: str, read: Parser, data: bytes) -> None:
        """Read one input; one that takes long is read once more, since it may have been the garbage collector."""
        self.count[name] += 1
        took_ms = self._read(name, read, data)
        if took_ms > _LONGEST_MS:
            took_ms = min(took_ms, self._read(name, read, data))
        if took_ms > self.longest.get(name, (0.0, b""))[0]:
            self.longest[name] = (took_ms, data)

    def _read(self, name: str, read: Parser, data: bytes) -> float:
        """Milliseconds of the processor that it takes to read."""
        began = time.thread_time()
        try:
            read(data)
        except OrionError:
            pass
        except Exception:
            self.faults.append(f"{name}: {data[:300]!r}\n{traceback.format_exc()[-1500:]}")
        return (time.thread_time() - began) * 1000


async def run(*, inputs: int, giants: int, seed: int, most_minutes: float = 600.0) -> Trial:
    """The trial: the giants, then so many inputs in turns of all parsers."""
    began, seconds = time.monotonic(), most_minutes * 60
    tried, rng = Tried(), random.Random(seed)
    found = await crafted.run(giants, rng, began + seconds * 0.3)
    say(f"{found.sent} giants are sent")
    begin = {name: seeds(name) for name in PARSERS}
    with logged_errors() as told:
        for name, read in PARSERS.items():  # what is loaded at first use is no input's fault
            for data in begin[name]:
                tried.one(name, read, data)
        tried.longest.clear()
        tried.count.clear()
        peak, reading_since = _peak_mib(), time.monotonic()
        for number in range(inputs // len(PARSERS)):
            if number % _CHUNK == 0:
                await asyncio.sleep(0)
                if time.monotonic() > began + seconds * 0.9:
                    break
            for name, read in PARSERS.items():
                tried.one(name, read, mutated(begin[name], rng))
        tried.faults += told
    minutes, count = (time.monotonic() - reading_since) / 60, tried.count.total()
    longest = {name: (ms, data) for name, (ms, data) in tried.longest.items() if ms > _LONGEST_MS}
    return Trial(
        name="fuzz",
        size=f"{count:,} inputs, {found.sent} giants",
        promises=[
            at_most("exceptions that are not the program's own", len(tried.faults), 0),
            at_most("inputs that take over 100 ms of the processor", len(longest), 0),
            at_most("MiB by which the process grew", _peak_mib() - peak, 256),
            *found.promises,
        ],
        figures={
            "inputs a minute": count / minutes,
            "longest, milliseconds of the processor": {n: round(ms, 1) for n, (ms, _) in tried.longest.items()},
            **({"faults": tried.faults[:_KEPT]} if tried.faults else {}),
            **({"too long": [f"{name}: {data[:300]!r}" for name, (_, data) in longest.items()]} if longest else {}),
            **found.figures,
        },
        seconds=time.monotonic() - began,
    )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
