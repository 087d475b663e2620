"""The shipped profiles for a machine with much else to do: no source is late."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from orion_recall.atomic_file import whole_text
from orion_recall.profile import Profile
from orion_recall.profile.watch import loaded_profiles
from orion_recall.shipped import shipped_folder

SOURCE_MS = 60_000


@cache
def patient(name: str) -> Profile:
    """The shipped profile with all the time that a source may be given; read once, which takes 50 ms."""
    return loaded_profiles(None)[name].profile.model_copy(update={"source_timeout_ms": SOURCE_MS})


def patient_profiles(folder: Path) -> Path:
    """A folder in this one with all of them; none is written twice, since a worker may be reading it."""
    made = folder / "patient-profiles"
    made.mkdir(exist_ok=True)
    for shipped in shipped_folder("profiles").glob("*.v1.yaml"):
        if not (made / shipped.name).exists():
            with whole_text(made / shipped.name) as text:
                text.write(f"{shipped.read_text('utf-8')}source_timeout_ms: {SOURCE_MS}\n")
    return made
