"""The keys that a worker takes, read again when their file changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from orion_recall.bus.signing.key_files import Caller, read_ring, state_of
from orion_recall.errors import SettingsError

log = logging.getLogger("orion_recall.bus")


class KeyRing:
    """The keys of a file. SettingsError at the start when it cannot be used.

    Later a file that cannot be used is told in the log, and the last good keys count until it is put right: a slip
    of the pen must not shut every caller out.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = state_of(path)
        self._callers: Mapping[str, Caller] = read_ring(path)

    def caller(self, key_id: str) -> Caller | None:
        """The holder of the key; None for one that is not in the file now."""
        state = state_of(self._path)
        if state != self._state:
            self._state = state
            self._read_again()
        return self._callers.get(key_id)

    def _read_again(self) -> None:
        try:
            callers = read_ring(self._path)
        except SettingsError as error:
            log.error("the keys of before count, %d of them: %s", len(self._callers), error)  # noqa: TRY400 (it says all)
            return
        gone, added = self._callers.keys() - callers.keys(), callers.keys() - self._callers.keys()
        self._callers = callers
        log.info("%d keys are read again: %d are new, %d are gone", len(callers), len(added), len(gone))
