"""The program, whose demo gives sources all the time there is: on a busy machine none of them is late."""

from __future__ import annotations

from orion_recall.cli import demo
from orion_recall.cli import main as program
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.settings import Settings
from tests.stand_ins.patient_profiles import patient_profiles

_SETTINGS = "_settings"


def install() -> None:
    """From now on the demo of this process is patient."""
    as_shipped = vars(demo)[_SETTINGS]

    def patient(engines: EmbeddedEngines) -> Settings:
        made: Settings = as_shipped(engines)
        return made.changed(deadline_ms=60_000, profiles_dir=patient_profiles(engines.data_dir))

    setattr(demo, _SETTINGS, patient)


def main() -> None:
    """The program's own entry point; it ends as that one does."""
    install()
    program.main()
