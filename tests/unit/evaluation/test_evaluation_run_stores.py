from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from orion_recall.evaluation.run_stores import private_settings
from orion_recall.settings import Settings


def test_no_address_of_a_store_is_taken_over(tmp_path: Path) -> None:
    given = Settings.read(
        redis_url=SecretStr("redis://somewhere"),
        prefix="live:",
        data_dir=Path("/srv/live"),
        tenants=("acme",),
        postgres_dsn=SecretStr("postgresql://somewhere/live"),
        timeline_table="events",
        model_path=Path("/srv/model"),
        profiles_dir=Path("/srv/profiles"),
    )
    private = private_settings(given, tmp_path)
    assert (private.redis_url, private.prefix, private.data_dir, private.tenants) == (None, "", tmp_path, ("*",))
    # The timeline is only read, and models and profiles are what is measured.
    assert (private.dsn, private.timeline_table) == ("postgresql://somewhere/live", "events")
    assert (private.model_path, private.profiles_dir) == (Path("/srv/model"), Path("/srv/profiles"))
