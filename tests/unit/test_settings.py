from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from orion_recall.errors import SettingsError
from orion_recall.schemas import unknown_variables
from orion_recall.settings import Settings, is_secret


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
    assert (settings.deadline_ms, settings.concurrency) == (2000, 10)


def test_the_channels_of_both_states_of_the_mesh_are_heard_unless_others_or_none_are_named(
    monkeypatch: pytest.MonkeyPatch,
):
    channels = Settings.read(prefix="p:").published_on
    assert channels["queries"] == ("p:recall.query.v1", "p:orion:exec:request:RecallService")
    assert channels["decisions"] == ()
    monkeypatch.setenv("ORION_QUERY_CHANNELS", "")
    monkeypatch.setenv("ORION_DECISION_CHANNELS", "recall.decision.v1, orion:recall:telemetry")
    assert Settings.read().published_on == {
        "queries": (),
        "decisions": ("recall.decision.v1", "orion:recall:telemetry"),
    }


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ORION_DEADLINE_MS", "soon", "ORION_DEADLINE_MS"),
        ("ORION_CONCURRENCY", "1000", "ORION_CONCURRENCY"),
        ("ORION_HEALTH_PORT", "70000", "ORION_HEALTH_PORT"),
        (
            "ORION_TIMELINE_COLUMNS",
            "words=body",
            r"ORION_TIMELINE_COLUMNS.*'words' is not a role; roles are tenant",
        ),
        ("ORION_QDRANT_URL", "http://", r"ORION_QDRANT_URL.*write http://host:6333"),
        ("ORION_QDRANT_URL", "http://host:port", "ORION_QDRANT_URL"),
        ("ORION_QDRANT_COLLECTION", "..", "ORION_QDRANT_COLLECTION"),
    ],
)
def test_a_broken_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=said):
        Settings.read()


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
    assert (settings.query_stream, settings.reply_stream) == ("{mesh}:recall.query.v1", "{mesh}:recall.reply.v1")
    assert settings.decision_stream == "{mesh}:recall.decision.v1"
    assert settings.intake_streams["stores"] == "{mesh}:memory.store.v1"


@pytest.mark.parametrize("name", ["ORION_SPARQL_URL", "ORION_SPARQL_UPDATE_URL"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("localhost:7878/query", "write http://host:7878/query"),
        ("http:///query", "write http://host:7878/query"),
        ("http://[::1/query", "ORION_SPARQL"),
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


SECRETS = [name for name, field in Settings.model_fields.items() if is_secret(field)]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_may_be_in_a_file(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    value = "redis://:p\u00e4ss word@bus" if name == "redis_url" else " p\u00e4ss word"
    file = tmp_path / "secret"
    file.write_text(f"{value}\n", encoding="utf-8")
    monkeypatch.setenv(f"ORION_{name.upper()}_FILE", str(file))
    found = getattr(Settings.read(), name)
    assert found.get_secret_value() == value
    assert unknown_variables(os.environ) == []
    assert Settings.read(**{name: SecretStr("redis://given")}).model_dump()[name] == SecretStr("redis://given")


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read: No such file"), (b"\n", "is empty"), (b"\xff\xfe", "cannot be read: it is no text")],
)
def test_a_file_without_a_secret_is_an_error_that_names_variable_and_file(
    content: bytes | None, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("ORION_QDRANT_API_KEY_FILE", str(file))
    with pytest.raises(SettingsError, match=f"^ORION_QDRANT_API_KEY_FILE: {file}.*{why}"):
        Settings.read()


def test_a_secret_that_is_given_twice_is_refused_and_neither_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "secret").write_text("redis://:opensesame@bus")
    monkeypatch.setenv("ORION_REDIS_URL", "redis://:opensesame@bus")
    monkeypatch.setenv("ORION_REDIS_URL_FILE", str(tmp_path / "secret"))
    with pytest.raises(SettingsError, match="ORION_REDIS_URL and ORION_REDIS_URL_FILE are both set") as refused:
        Settings.read()
    assert "opensesame" not in str(refused.value)
