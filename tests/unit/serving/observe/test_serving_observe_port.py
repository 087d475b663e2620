"""The health port over real sockets: what it answers, and that nobody can keep it from answering others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

import httpx
import pytest

from orion_recall.errors import SettingsError
from orion_recall.serving.observe.port import Answer, HttpPort

_WELL = b"GET /live HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.fixture
async def port() -> AsyncGenerator[HttpPort]:
    async with listening() as started:
        yield started


@asynccontextmanager
async def listening(number: int = 0) -> AsyncGenerator[HttpPort]:
    async def live() -> Answer:
        return Answer.of_json(HTTPStatus.OK, {"live": True})

    async def large() -> Answer:
        return Answer(status=HTTPStatus.OK, body=b"x" * 30_000_000, content_type="text/plain")

    made = HttpPort("127.0.0.1", number, {"/live": live, "/large": large})
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def said(port: HttpPort, request: bytes) -> bytes:
    """Everything that comes back for these bytes."""
    reader, writer = await asyncio.open_connection(*port.address)
    writer.write(request)
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    return answer


async def served(port: HttpPort) -> bool:
    """Whether a request is answered now."""
    try:
        return (await said(port, _WELL)).startswith(b"HTTP/1.1 200 ")
    except ConnectionError:
        return False


async def test_a_path_is_answered_once_a_connection(port: HttpPort) -> None:
    async with httpx.AsyncClient(base_url=port.url, verify=False) as client:
        for _ in range(3):
            answer = await client.get("/live?x=1")
            assert (answer.status_code, answer.json()) == (200, {"live": True})
            assert answer.headers["connection"] == "close"
        head = await client.head("/live")
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "15")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"DELETE /live HTTP/1.1\r\n\r\n", 405),
        (b"POST /live HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000, 405),
        (b"GET /live\r\n\r\n", 400),
        (b"GET /live HTTP/2.0\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /live HTTP/1.1\r\nCookie: " + b"x" * 20_000 + b"\r\n\r\n", 431),
    ],
)
async def test_what_is_no_request_for_a_path_is_told_so(port: HttpPort, request_bytes: bytes, status: int) -> None:
    assert (await said(port, request_bytes)).startswith(f"HTTP/1.1 {status} ".encode())
    assert (await said(port, _WELL)).startswith(b"HTTP/1.1 200 ")


async def test_slow_clients_are_dropped_and_others_served_meanwhile(
    port: HttpPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.serving.observe.port._REQUEST_S", 0.3)
    reader, writer = await asyncio.open_connection(*port.address)
    writer.write(b"GET /li")
    async with asyncio.timeout(30):
        while not await served(port):  # a busy machine may be slow itself
            await asyncio.sleep(0.01)
        assert await gone(reader)
    writer.close()


async def test_more_connections_than_it_has_room_for_are_dropped_and_room_comes_back(
    port: HttpPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.serving.observe.port._MOST_CONNECTIONS", 4)
    async with AsyncExitStack() as stack:
        for _ in range(4):
            _, writer = await asyncio.open_connection(*port.address)
            writer.write(b"GET ")
            stack.callback(writer.close)
        async with asyncio.timeout(30):
            reader, extra = await asyncio.open_connection(*port.address)
            stack.callback(extra.close)
            assert await gone(reader)

    async with asyncio.timeout(30):
        while not await served(port):
            await asyncio.sleep(0.01)


async def test_an_address_that_is_taken_is_refused_by_the_name_of_its_setting(port: HttpPort) -> None:
    with pytest.raises(SettingsError, match=f"ORION_HEALTH_PORT.*{port.address[1]}"):
        async with listening(port.address[1]):
            pass


async def gone(reader: asyncio.StreamReader) -> bool:
    """Whether the other side has hung up without a word."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True
