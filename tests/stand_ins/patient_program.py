"""The program, which gives sources all the time there is: on a busy machine none of them is late.

A profile is as its file says but for that, and has the hash of its file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from orion_recall.cli import demo
from orion_recall.cli import main as program
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.profile import watch
from orion_recall.profile.watch import LoadedProfile
from orion_recall.settings import Settings
from tests.stand_ins.patient_profiles import SOURCE_MS, patient_profiles

_SETTINGS = "_settings"


def install() -> None:
    """From now on this process is patient, and the demo's recalls are, too."""
    as_shipped, as_written = vars(demo)[_SETTINGS], watch.loaded_profiles

    def patient(engines: EmbeddedEngines) -> Settings:
        made: Settings = as_shipped(engines)
        return made.changed(deadline_ms=60_000, profiles_dir=patient_profiles(engines.data_dir))

    def loaded(folder: Path | None) -> dict[str, LoadedProfile]:
        return {
            name: replace(one, profile=one.profile.model_copy(update={"source_timeout_ms": SOURCE_MS}))
            for name, one in as_written(folder).items()
        }

    setattr(demo, _SETTINGS, patient)
    watch.loaded_profiles = loaded


def main() -> None:
    """The program's own entry point; it ends as that one does."""
    install()
    program.main()
