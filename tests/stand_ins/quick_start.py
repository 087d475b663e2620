"""What every start of the program does anew is done once in the tests: clusters, token spaces, parsed profiles."""

from __future__ import annotations

from functools import cache

from orion_recall.profile import reading
from tests.stand_ins import quick_model, quick_postgres


def install() -> None:
    """From now on this process starts Postgres, models and workers quickly; what they give is the same."""
    quick_postgres.install()
    quick_model.install()
    # Nodes are read, never written to.
    setattr(reading, "compose_mapping", cache(reading.compose_mapping))  # noqa: B010  its type is a function
