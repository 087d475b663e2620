"""Memory ids of commands that change memories over the bus."""

from __future__ import annotations

import pytest

from orion_recall.cli.memory.ids import full_live_ids, no_such_memory
from orion_recall.settings import Settings

AWAY = "postgresql://nobody@127.0.0.1:1/none"


@pytest.mark.parametrize(
    ("dsn", "as_json"), [(None, False), (AWAY, True), (AWAY, False)], ids=["no Postgres", "a program", "away"]
)
def test_an_id_that_cannot_be_looked_up_stays_as_it_was_given(
    monkeypatch: pytest.MonkeyPatch, dsn: str | None, as_json: bool
) -> None:
    monkeypatch.delenv("ORION_POSTGRES_DSN", raising=False)
    if dsn is not None:
        monkeypatch.setenv("ORION_POSTGRES_DSN", dsn)
    assert full_live_ids(Settings.read(), None, ["m-12", "m-1"], as_json=as_json) == ["m-12", "m-1"]


def test_of_an_unknown_id_the_tenant_is_told_and_how_long_a_prefix_must_be() -> None:
    assert no_such_memory("acme", "m-12") == "no memory of 'acme' has the id 'm-12', nor one that begins so"
    assert no_such_memory("acme", "m-1").endswith("(a prefix needs 4 characters)")
