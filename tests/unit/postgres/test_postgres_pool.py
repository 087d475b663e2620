from __future__ import annotations

import json
from pathlib import Path

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from orion_recall.errors import RecordError, SettingsError
from orion_recall.postgres.pool import (
    is_connection_lost,
    open_pool,
    quote_identifier,
    quote_qualified,
    reason,
    shipped_migrations,
    to_json,
    translate,
)


@pytest.mark.parametrize("name", ["memories", "_private", "Mixed_Case", "mémoire", "日記", "a$1", "x" * 63])
def test_a_name_is_quoted_as_it_is_written(name: str) -> None:
    assert quote_identifier(name) == f'"{name}"'


@pytest.mark.parametrize(
    "name", ["", "1st", "$x", "a b", 'a"b', "a;b", "a-b", "a\x00b", "a\n", "x" * 64, "é" * 32, "a.b"]
)
def test_a_name_that_postgres_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="name"):
        quote_identifier(name)


def test_a_table_may_be_named_with_its_schema() -> None:
    assert quote_qualified("diary.entries") == '"diary"."entries"'
    assert quote_qualified("entries") == '"entries"'


@pytest.mark.parametrize("name", ["a.b.c", "a.", ".b", "."])
def test_a_table_name_with_missing_or_too_many_parts_is_refused(name: str) -> None:
    with pytest.raises(SettingsError):
        quote_qualified(name)


def test_json_for_postgres_has_neither_nul_nor_lone_surrogates_in_keys_and_texts() -> None:
    cleaned = json.loads(to_json({"a\x00": ["b\x00", "c\ud800"], "ok": "é\\u0000 is text"}))
    assert cleaned == {"a\ufffd": ["b\ufffd", "c\ufffd"], "ok": "é\\u0000 is text"}


def test_json_for_postgres_refuses_numbers_that_json_has_not() -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json({"score": float("nan")})


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


def test_errors_that_are_not_of_postgres_pass_through_untouched() -> None:
    with pytest.raises(KeyError), translate("reading"):
        raise KeyError("x")


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


def test_schema_files_come_memory_first_then_by_number() -> None:
    names = [migration.name for migration in shipped_migrations()]
    assert "decisions/decisions.sql" in names
    assert names == sorted(names, key=lambda name: (name.startswith("decisions"), name))
