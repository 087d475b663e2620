"""The filter for what somebody said: that person's turns, and texts of others that report what was said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.scoring.candidates import Candidate
from orion_recall.text.reported import reports
from orion_recall.values import MemoryView

_READ_CHARS = 4_000

Kept = Sequence[tuple[Candidate, MemoryView]]


@dataclass(frozen=True, slots=True)
class SaidByFilter:
    """Keeps what a person said who has spoken in the scope."""

    said: SaidBy

    def kept(self, candidates: Kept, dropped: Dropped) -> Kept:
        """The candidates that this person said, or that report it, of the time asked about; all where none is."""
        own = [one for one in candidates if self._is_in_time(one[1]) and self._is_said(one[1])]
        if not own:
            return candidates
        keys = {candidate.key for candidate, _ in own}
        for candidate, _ in candidates:
            if candidate.key not in keys:
                dropped.note("not_said_by", candidate.key)
        return own

    def _is_said(self, memory: MemoryView) -> bool:
        return memory.speaker in self.said.speakers or reports(memory.text[:_READ_CHARS], self.said.names)

    def _is_in_time(self, memory: MemoryView) -> bool:
        intervals, moment = self.said.intervals, memory.ts
        return not intervals or (
            moment is not None
            and any(
                (one.start is None or one.start <= moment) and (one.end is None or moment < one.end)
                for one in intervals
            )
        )
