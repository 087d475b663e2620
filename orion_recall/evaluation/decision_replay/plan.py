"""The plan of a replay: which logged queries are asked again, under which profile, on the memories of when."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orion_recall.errors import SettingsError
from orion_recall.evaluation.decision_replay.logged import Choice
from orion_recall.evaluation.plan import Cache
from orion_recall.profile import Profile

AsOf = Literal["decision", "now"]
_ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """What is replayed: the choice of queries, the tried profile (None: only the logged one), on which data."""

    choice: Choice
    tried: Profile | None = None
    as_of: AsOf = "decision"
    cache: Cache | None = None

    @property
    def name(self) -> str:
        """The name of the tried profile, or `control` without one."""
        return self.tried.profile if self.tried is not None else "control"


def answered_by(profile_of: str | None, tried: Profile | None) -> str | None:
    """The profile whose queries are chosen (None: any): the one of `--profile-of`, else the tried one's name."""
    if profile_of == _ANY:
        return None
    return profile_of or (tried.profile if tried is not None else None)


def listed_ids(file: Path) -> tuple[str, ...]:
    """The ids of a file, one a line, each once. SettingsError: it cannot be read."""
    try:
        told = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--ids: {file} cannot be read: {error}") from error
    return tuple(dict.fromkeys(line.strip() for line in told if line.strip()))
