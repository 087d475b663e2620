"""Addresses, names, errors, pools and held connections of Postgres."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from orion_recall.errors import QueryNotTaken, RecordError, SettingsError, SourceError
from orion_recall.postgres import pool
from orion_recall.postgres.address import quote_identifier, quote_qualified, read_address, with_schema
from orion_recall.postgres.pool import HeldConnections, is_connection_lost, open_pool, reason, to_json, translate
from orion_recall.settings import Settings


def test_what_an_address_says_to_us_is_not_told_the_server() -> None:
    dsn = with_schema(
        "postgresql://u@h/db?sslmode=disable&statement_cache_size=0&application_name=a", "mesh_memory"
    )
    address = read_address(dsn)
    assert (address.schema, address.cache_size) == ("mesh_memory", 0)
    assert address.dsn == "postgresql://u@h/db?sslmode=disable&application_name=a"


def test_the_settings_put_the_schema_into_the_address() -> None:
    settings = Settings.read(postgres_dsn="postgresql://u@h/db", postgres_schema="other")
    assert read_address(settings.dsn or "").schema == "other"
    assert Settings.read(postgres_dsn="postgresql://u@h/db").dsn == "postgresql://u@h/db"


@pytest.mark.parametrize("name", ["", "Mixed", "1st", "a-b", "a.b", 'a"b', "a b", "x" * 64, "a;", "a\n", "é"])
def test_a_schema_that_would_need_quotes_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="ORION_POSTGRES_SCHEMA"):
        Settings.read(postgres_schema=name)


class Refusing:
    """A connection whose server refuses what is sent."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def fetch(self, statement: str, *values: object) -> list[object]:
        raise self.error

    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None:
        raise AssertionError("it is whole")


@pytest.mark.parametrize(
    ("refusal", "is_the_querys_fault"),
    [
        (asyncpg.InvalidTextRepresentationError("invalid input syntax for type uuid"), True),
        (asyncpg.DataError("invalid input for query argument $1"), True),
        (asyncpg.UndefinedColumnError('column "told" does not exist'), False),
    ],
)
async def test_a_value_that_is_refused_is_the_querys_fault_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch, refusal: Exception, *, is_the_querys_fault: bool
) -> None:
    async def opened(*_: object, **__: object) -> Refusing:
        return Refusing(refusal)

    monkeypatch.setattr(pool, "open_connection", opened)
    held = HeldConnections("postgresql://nowhere/x", name="test")
    with pytest.raises(SourceError) as raised:
        await held.fetch("searching", "SELECT $1::uuid", ["no uuid"])
    assert isinstance(raised.value, QueryNotTaken) is is_the_querys_fault


@pytest.mark.parametrize(
    "name", ["", "1st", "$x", "a b", 'a"b', "a;b", "a-b", "a\x00b", "a\n", "x" * 64, "é" * 32, "a.b"]
)
def test_a_name_that_postgres_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="name"):
        quote_identifier(name)


@pytest.mark.parametrize("name", ["a.b.c", "a.", ".b", "."])
def test_a_table_name_with_missing_or_too_many_parts_is_refused(name: str) -> None:
    with pytest.raises(SettingsError):
        quote_qualified(name)


def test_json_for_postgres_has_neither_nul_nor_lone_surrogates_in_keys_and_texts() -> None:
    cleaned = json.loads(to_json({"a\x00": ["b\x00", "c\ud800"], "ok": "é\\u0000 is text"}))
    assert cleaned == {"a\ufffd": ["b\ufffd", "c\ufffd"], "ok": "é\\u0000 is text"}


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        TimeoutError(),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        asyncpg.AdminShutdownError("terminating connection"),
        asyncpg.TooManyConnectionsError("sorry, too many clients already"),
        asyncpg.DiskFullError("could not extend file"),
        asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction"),
    ],
)
def test_an_absent_server_is_told_from_a_refused_statement(error: Exception) -> None:
    assert is_connection_lost(error)
    with pytest.raises(RecordError, match=r"reading: .+") as caught, translate("reading"):
        raise error
    assert is_connection_lost(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.UndefinedTableError("relation does not exist"),
        asyncpg.InvalidTextRepresentationError("invalid input syntax"),
        RecordError("without a cause"),
        ValueError("something else"),
    ],
)
def test_a_refused_statement_is_no_lost_connection(error: Exception) -> None:
    assert not is_connection_lost(error)


def test_the_reason_of_a_data_error_does_not_quote_the_value() -> None:
    error = asyncpg.InvalidTextRepresentationError('invalid input syntax for type integer: "my secret"')
    assert "secret" not in reason(error)
    assert "22P02" in reason(error)


async def test_a_server_that_is_not_there_is_a_record_error_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be reached") as caught:
        await open_pool(f"postgresql://u:hunter2@/db?host={tmp_path}", name="t", min_size=1, max_size=1)
    assert "hunter2" not in str(caught.value)


async def test_a_pool_opens_while_the_server_is_away_when_it_needs_no_connection_yet(tmp_path: Path) -> None:
    pool = await open_pool(f"postgresql://u@/db?host={tmp_path}", name="t", min_size=0, max_size=1)
    try:
        with pytest.raises(RecordError), translate():
            await pool.fetchval("SELECT 1")
    finally:
        await pool.close()


@pytest.mark.parametrize("dsn", ["http://host/db", "postgresql://u@h/db?statement_cache_size=many"])
async def test_an_address_that_cannot_be_one_names_the_setting(dsn: str) -> None:
    with pytest.raises(SettingsError, match="ORION_POSTGRES_DSN"):
        await open_pool(dsn, name="t")
