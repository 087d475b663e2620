from __future__ import annotations

import os
from pathlib import Path

import pytest

from orion_recall.errors import SettingsError
from orion_recall.settings import Settings


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in [name for name in os.environ if name.startswith("ORION_")]:
        monkeypatch.delenv(name)


def test_without_an_environment_everything_is_embedded_and_default():
    settings = Settings.read()
    assert settings.bus_url is None
    assert settings.dsn is None
    assert settings.tenants == ("default",)
    assert settings.data_dir == Path(".orion")
    assert settings.reply_streams == ("recall.reply.v1", "recall.reply.v1:*")
    assert settings.reply_channels == ("orion-exec:result:*", "orion:exec:result:*", "orion:orch:result:*")
    assert settings.deadline_ms == 2000


def test_the_environment_sets_and_changes_win_over_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ORION_DEADLINE_MS", "500")
    monkeypatch.setenv("ORION_CONCURRENCY", "3")
    settings = Settings.read(concurrency=4)
    assert (settings.deadline_ms, settings.concurrency) == (500, 4)


def test_lists_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ORION_TENANTS", "acme, umbra ,")
    monkeypatch.setenv("ORION_REPLY_STREAMS", "a:*,b")
    settings = Settings.read()
    assert settings.tenants == ("acme", "umbra")
    assert settings.reply_streams == ("a:*", "b")


def test_a_worker_serves_the_tenants_it_is_given():
    assert [Settings.read(tenants=("acme",)).serves(name) for name in ("acme", "default", "")] == [
        True,
        False,
        False,
    ]
    assert Settings.read(tenants=("*",)).serves("anyone")


def test_timeline_columns_are_pairs_and_an_empty_column_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ORION_TIMELINE_COLUMNS", "id=uid, text = body,tenant=,")
    assert Settings.read().timeline_columns == {"id": "uid", "text": "body", "tenant": ""}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ORION_DEADLINE_MS", "soon", "ORION_DEADLINE_MS"),
        ("ORION_DEADLINE_MS", "1", "ORION_DEADLINE_MS"),
        ("ORION_CONCURRENCY", "1000", "ORION_CONCURRENCY"),
        ("ORION_LOG_LEVEL", "loud", "ORION_LOG_LEVEL"),
        ("ORION_HEALTH_PORT", "70000", "ORION_HEALTH_PORT"),
        ("ORION_READY_SOURCES", "vector,shelf", "ORION_READY_SOURCES"),
        (
            "ORION_TIMELINE_COLUMNS",
            "words=body",
            r"ORION_TIMELINE_COLUMNS.*'words' is not a role; roles are tenant",
        ),
        ("ORION_QDRANT_URL", "qdrant:6333", r"ORION_QDRANT_URL.*write http://host:6333"),
        ("ORION_QDRANT_URL", "http://", r"ORION_QDRANT_URL.*write http://host:6333"),
        ("ORION_QDRANT_URL", "grpc://host:6334", r"ORION_QDRANT_URL.*write http://host:6333"),
        ("ORION_QDRANT_URL", "http://host:port", "ORION_QDRANT_URL"),
        ("ORION_QDRANT_COLLECTION", "a/b", "ORION_QDRANT_COLLECTION"),
        ("ORION_QDRANT_COLLECTION", "..", "ORION_QDRANT_COLLECTION"),
        ("ORION_QDRANT_COLLECTION", "", "ORION_QDRANT_COLLECTION"),
    ],
)
def test_a_broken_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=said):
        Settings.read()


def test_several_broken_settings_are_named_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ORION_DEADLINE_MS", "soon")
    monkeypatch.setenv("ORION_CONCURRENCY", "many")
    with pytest.raises(SettingsError) as caught:
        Settings.read()
    assert "ORION_DEADLINE_MS" in str(caught.value)
    assert "ORION_CONCURRENCY" in str(caught.value)


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ORION_REDIS_URL", "redis://:hunter2@bus:6379")
    monkeypatch.setenv("ORION_POSTGRES_DSN", "postgresql://ana:hunter2@db/orion")
    monkeypatch.setenv("ORION_QDRANT_API_KEY", "hunter2")
    settings = Settings.read()
    assert settings.qdrant_key == "hunter2"
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert settings.bus_url == "redis://:hunter2@bus:6379"
    assert settings.dsn == "postgresql://ana:hunter2@db/orion"


def test_a_prefix_stands_before_every_name():
    settings = Settings.read(prefix="{mesh}:")
    names = [
        settings.query_stream, settings.reply_stream, settings.decision_stream, settings.store_stream,
        settings.dead_stream, settings.store_dead_stream,
    ]  # fmt: skip
    assert names == [
        "{mesh}:recall.query.v1", "{mesh}:recall.reply.v1", "{mesh}:recall.decision.v1", "{mesh}:memory.store.v1",
        "{mesh}:recall.query.v1:dead", "{mesh}:memory.store.v1:dead",
    ]  # fmt: skip


def test_changed_settings_are_a_copy():
    settings = Settings.read()
    assert settings.changed(prefix="x:").prefix == "x:"
    assert settings.prefix == ""


def test_every_process_has_an_instance_name_of_its_own():
    assert Settings.read().instance.endswith(f"-{os.getpid()}")


def test_every_setting_is_described():
    assert {name for name, field in Settings.model_fields.items() if not field.description} == set()


@pytest.mark.parametrize("name", ["ORION_SPARQL_URL", "ORION_SPARQL_UPDATE_URL"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("localhost:7878/query", "write http://host:7878/query"),
        ("ftp://host/query", "write http://host:7878/query"),
        ("http:///query", "write http://host:7878/query"),
        ("http://ana:hunter2/query", "write http://host:7878/query"),
        ("http://[::1/query", "ORION_SPARQL"),
        ("http://host/query#part", "write http://host:7878/query"),
        ("http://ana:hunter2@host/query", "belong in ORION_SPARQL_USER and ORION_SPARQL_PASSWORD"),
    ],
)
def test_a_sparql_address_is_one_and_holds_no_password(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=said) as refused:
        Settings.read()
    assert name in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_sparql_secrets_do_not_show():
    settings = Settings.read(sparql_url="https://h/query", sparql_password="hunter2", sparql_token="hunter2")
    assert settings.sparql_url == "https://h/query"
    assert "hunter2" not in f"{settings!r} {settings.model_dump_json()}"


@pytest.mark.parametrize(
    ("name", "value"), [("ORION_TENANTS", ","), ("ORION_REDIS_URL", "foo"), ("ORION_TENANTS", "")]
)
def test_a_setting_that_would_serve_nobody_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name):
        Settings.read()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ORION_REDIS_URL", "http://me:hunter2@bus"),
        ("ORION_QDRANT_URL", "http://me:hunter2@qdrant:6333"),
        ("ORION_QDRANT_URL", "http://me:hunter2"),
        ("ORION_QDRANT_URL", "http://qdrant:6333?key=hunter2"),
    ],
)
def test_a_refused_address_does_not_show_its_password(monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name) as refused:
        Settings.read()
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["ORION_TEI_URL", "ORION_RERANKER_URL"])
@pytest.mark.parametrize(
    "value", ["embedder:8080", "ftp://host", "http://", "http://me:hunter2@host", "http://h?key=hunter2"]
)
def test_a_models_server_is_a_plain_http_address(monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name) as refused:
        Settings.read()
    assert "hunter2" not in str(refused.value)
    monkeypatch.setenv(name, "https://host:8080/tei/")
    assert getattr(Settings.read(), name.removeprefix("ORION_").lower()) == "https://host:8080/tei"


@pytest.mark.parametrize(("value", "sources"), [("vector, rdf", ("vector", "rdf")), ("", ())])
def test_required_sources_are_a_list_that_may_be_empty(
    monkeypatch: pytest.MonkeyPatch, value: str, sources: tuple[str, ...]
):
    assert Settings.read().ready_sources is None
    monkeypatch.setenv("ORION_READY_SOURCES", value)
    assert Settings.read().ready_sources == sources
