"""Connections: under TLS and with passwords, their errors, and that what is told to end ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from executor import command, info
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, ConnectionError, ResponseError

from orion_recall.bus.connect import connect, group_is_gone, without_secrets
from orion_recall.engines.embedded import EmbeddedEngines
from tests.stand_ins.certificates import Certificates
from tests.stand_ins.proxy import Proxy
from tests.stand_ins.redis_servers import RedisServer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Made once: keys take a moment."""
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
async def port(bus_alone: EmbeddedEngines, certificates: Certificates) -> AsyncGenerator[int]:
    """TLS in front of the embedded bus, whose server is built without; only clients with a certificate come in."""
    path = bus_alone.redis_url.removeprefix("unix://")
    async with Proxy.before_socket(path, tls=certificates.server_context(ask_clients=True)) as proxy:
        yield proxy.port


@pytest.mark.parametrize("blocking", [False, True])
async def test_both_sides_show_their_certificates(port: int, certificates: Certificates, blocking: bool) -> None:
    url = (
        f"rediss://localhost:{port}?ssl_ca_certs={certificates.ca}"
        f"&ssl_certfile={certificates.client}&ssl_keyfile={certificates.client_key}"
    )
    async with connect(url, blocking=blocking) as redis:
        assert await command(redis, "ECHO", "a") == b"a"


async def test_a_server_of_another_authority_is_not_spoken_to(port: int, certificates: Certificates) -> None:
    async with connect(f"rediss://localhost:{port}?ssl_ca_certs={certificates.stranger}") as redis:
        with pytest.raises(ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            await command(redis, "PING")


async def test_a_server_must_be_the_one_it_is_called(
    bus_alone: EmbeddedEngines, certificates: Certificates
) -> None:
    path = bus_alone.redis_url.removeprefix("unix://")
    async with Proxy.before_socket(path, tls=certificates.server_context(misnamed=True)) as proxy:
        ours = f"rediss://localhost:{proxy.port}?ssl_ca_certs={certificates.ca}"
        async with connect(ours) as redis:
            with pytest.raises(ConnectionError, match="Hostname mismatch"):
                await command(redis, "PING")
        async with connect(f"{ours}&ssl_check_hostname=no") as redis:
            assert await command(redis, "ECHO", "a") == b"a"


async def test_a_client_without_a_certificate_is_not_let_in(port: int, certificates: Certificates) -> None:
    async with connect(f"rediss://localhost:{port}?ssl_ca_certs={certificates.ca}") as redis:
        with pytest.raises(ConnectionError):
            await command(redis, "PING")


async def test_user_and_password_come_from_the_address_and_a_wrong_one_is_not_repeated(tmp_path: Path) -> None:
    users = tmp_path / "users.acl"
    users.write_text("user ana on >p@ss/w:rd ~* &* +@all\nuser default off\n")
    server = RedisServer(tmp_path, options={"aclfile": str(users)})
    try:
        await server.start()
        address = f"127.0.0.1:{server.port}"
        async with connect(f"redis://ana:p%40ss%2Fw%3Ard@{address}") as redis:
            assert await command(redis, "ACL", "WHOAMI") == b"ana"
        async with connect(f"redis://ana:hunter2@{address}") as redis:
            with pytest.raises(AuthenticationError) as refused:
                await command(redis, "PING")
        assert "hunter2" not in str(refused.value)
    finally:
        await server.end()


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_loop_over_a_connection_ends_wherever_it_is_cancelled(
    blocking: bool, bus: Redis, bus_alone: EmbeddedEngines
) -> None:
    async with connect(bus_alone.redis_url, blocking=blocking) as redis:

        async def endless() -> None:
            while True:
                await command(redis, "ECHO", "a")

        # One step of the event loop later each time: the send, the wait for its end, the wait for the answer.
        for steps in range(1, 40):
            task = asyncio.create_task(endless())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=30)
            assert done, f"it goes on, cancelled at step {steps}"
            assert await command(redis, "ECHO", "b") == b"b", f"another's answer, after step {steps}"


async def test_what_a_blocked_read_hears_of_a_vanished_group_is_known_as_that(bus: Redis, prefix: str) -> None:
    stream = f"{prefix}recall.query.v1"
    for vanish in (bus.unlink(stream), command(bus, "FLUSHALL")):
        await bus.xgroup_create(stream, "g", mkstream=True)
        reading = asyncio.create_task(command(bus, *f"XREADGROUP GROUP g c BLOCK 4000 STREAMS {stream} >".split()))
        while (await info(bus, "clients"))["blocked_clients"] < 1:
            await asyncio.sleep(0.001)
        await vanish
        with pytest.raises(ResponseError) as heard:
            await reading
        assert group_is_gone(heard.value)
    with pytest.raises(ResponseError) as heard:
        await bus.xreadgroup("g", "c", {stream: ">"})
    assert group_is_gone(heard.value)
    with pytest.raises(ResponseError) as heard:
        await command(bus, "NO-SUCH-COMMAND")
    assert not group_is_gone(heard.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@host:6379/0", "redis://host:6379/0"),
        ("rediss://:secret@host", "rediss://host"),
        ("unix:///run/bus.sock", "unix:///run/bus.sock"),
        ("redis://user:se@cret@host", "redis://host"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
