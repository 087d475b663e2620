"""Addresses: of the bus, and of replies."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio.connection import SSLConnection

from orion_recall.bus.connect import read_url
from orion_recall.bus.delivery import ReplyRules
from orion_recall.errors import RefusedMessage, SettingsError
from orion_recall.settings import Settings

RULES = ReplyRules(Settings(prefix="p:"))
ALLOWED = ("p:recall.reply.v1:", "p:orion-exec:result:", "p:orion:exec:result:", "p:orion:orch:result:")


@pytest.mark.parametrize(
    ("reply_to", "mode"),
    [
        ("p:recall.reply.v1", "shared"),
        ("p:recall.reply.v1:me", "own"),
        ("p:orion-exec:result:7", "channel"),
        ("p:orion:exec:result:7", "channel"),
        ("p:orion:orch:result:RecallService:7", "channel"),
    ],
)
def test_allowed_addresses_are_streams_or_channels(reply_to: str, mode: str) -> None:
    address, _ = RULES.resolve(reply_to)
    assert (address.mode, address.name) == (mode, reply_to)


@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=40))
def test_whatever_else_is_asked_for_is_refused_and_answered_on_the_shared_stream(reply_to: str) -> None:
    address, refused = RULES.resolve(reply_to)
    if reply_to != "p:recall.reply.v1" and not reply_to.startswith(ALLOWED):
        assert refused is not None
        assert address == RULES.shared


def test_no_rule_however_wide_opens_a_stream_or_a_channel_of_our_own() -> None:
    settings = Settings(prefix="p:", reply_streams=("*",), reply_channels=("*",), decision_channels=("told",))
    rules = ReplyRules(settings)
    assert rules.resolve("p:anything")[0].mode == "own"
    ours = [
        *(f"{stream}{dead}" for stream in settings.intake_streams.values() for dead in ("", ":dead")),
        settings.decision_stream,
        settings.tombstone_stream,
        f"{settings.decision_stream}:dead",
        f"{settings.decision_stream}:trimmed",
        "p:orion:exec:request:RecallService",
        "p:told",
    ]
    for reply_to in ours:
        address, refused = rules.resolve(reply_to)
        assert (address, isinstance(refused, RefusedMessage)) == (rules.shared, True)


def test_an_address_with_sentinels_names_them_the_master_and_the_database() -> None:
    address = read_url("redis+sentinel://ana:p%40ss@one:26380,two,[::1]:26381/mymaster/3?socket_timeout=2")
    assert address.sentinels == (("one", 26380), ("two", 26379), ("::1", 26381))
    assert address.service == "mymaster"
    assert address.options == {"username": "ana", "password": "p@ss", "db": 3, "socket_timeout": 2.0}
    assert address.sentinel_options == {}, "the server's password is not shown to a Sentinel"


def test_sentinels_have_credentials_of_their_own_and_share_the_certificates(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    address = read_url(
        f"rediss+sentinel://:secret@one/m?ssl_ca_certs={ca}&sentinel_username=sam&sentinel_password=other"
    )
    assert address.options["connection_class"] is SSLConnection
    assert address.options["password"] == "secret"
    assert address.sentinel_options == {
        "connection_class": SSLConnection,
        "ssl_ca_certs": str(ca),
        "username": "sam",
        "password": "other",
    }


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://bus", "redis://"),
        ("redis://bus/zero", "redis://user"),
        ("redis://user:pass/word@bus:6379", "percent-encoded"),
        ("redis://bus?ssl_ca_certs=/ca.pem", "'ssl_ca_certs' is no parameter of redis"),
        ("redis://bus?socket_timeot=1", "'socket_timeot' is no parameter"),
        ("redis://bus?socket_timeout=0", "socket_timeout must be more than 0"),
        ("redis://bus?max_connections=-1", "max_connections must be more than 0"),
        ("redis://bus?socket_timeout=soon", "cannot be read"),
        ("rediss://bus?ssl_ca_certs=/nowhere/ca.pem", "ssl_ca_certs is not a file.*nowhere"),
        ("redis+sentinel://one,two", "names no Sentinel, or not the master"),
        ("redis+sentinel:///mymaster", "names no Sentinel"),
        ("redis+sentinel://one:many/mymaster", "cannot be read"),
        ("unix+sentinel://one/mymaster", "cannot be read"),
    ],
)
def test_what_cannot_be_an_address_is_refused_with_what_to_write(url: str, said: str) -> None:
    with pytest.raises(SettingsError, match=f"ORION_REDIS_URL.*{said}"):
        read_url(url)
