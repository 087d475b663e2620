from __future__ import annotations

import pytest

from orion_recall.errors import SettingsError
from orion_recall.postgres.address import DEFAULT_SCHEMA, read_address, with_schema
from orion_recall.settings import Settings


@pytest.mark.parametrize("dsn", ["postgresql://u:p%40@h/db", "postgres://u@h:1/db?sslmode=disable"])
def test_an_address_that_says_nothing_to_us_is_left_as_it_is_and_means_the_usual_schema(dsn: str) -> None:
    address = read_address(dsn)
    assert (address.dsn, address.schema, address.cache_size) == (dsn, DEFAULT_SCHEMA, None)
    assert with_schema(dsn, DEFAULT_SCHEMA) == dsn


def test_what_an_address_says_to_us_is_not_told_the_server() -> None:
    dsn = with_schema(
        "postgresql://u@h/db?sslmode=disable&statement_cache_size=0&application_name=a", "mesh_memory"
    )
    address = read_address(dsn)
    assert (address.schema, address.cache_size) == ("mesh_memory", 0)
    assert address.dsn == "postgresql://u@h/db?sslmode=disable&application_name=a"


def test_an_address_without_parameters_can_name_a_schema() -> None:
    assert read_address(with_schema("postgresql://u@h/db", "other")).schema == "other"


def test_the_settings_put_the_schema_into_the_address() -> None:
    settings = Settings.read(postgres_dsn="postgresql://u@h/db", postgres_schema="other")
    assert read_address(settings.dsn or "").schema == "other"
    assert Settings.read(postgres_dsn="postgresql://u@h/db").dsn == "postgresql://u@h/db"


@pytest.mark.parametrize("name", ["", "Mixed", "1st", "a-b", "a.b", 'a"b', "a b", "x" * 64, "a;", "a\n", "é"])
def test_a_schema_that_would_need_quotes_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="ORION_POSTGRES_SCHEMA"):
        Settings.read(postgres_schema=name)
