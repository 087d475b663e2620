"""When a server is left alone: after its own failures, not for what callers do."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httpx
import pytest
from qdrant_client.http.exceptions import UnexpectedResponse

from orion_recall.errors import QueryNotTaken, SourceError, TransientSourceError
from orion_recall.index.qdrant.server import QdrantServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> QdrantServer:
    monkeypatch.setattr("orion_recall.index.qdrant.server._GIVEN_UP_S", -1.0)  # every cancelled call was long
    return QdrantServer(cast("Any", None), "http://localhost:6333")


async def answered() -> str:
    return "an answer"


async def cancelled(server: QdrantServer) -> None:
    task = asyncio.create_task(server.ask(asyncio.Event().wait()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


async def test_a_call_that_a_recall_gave_up_leaves_the_server_alone_for_a_while(server: QdrantServer) -> None:
    await cancelled(server)
    with pytest.raises(TransientSourceError, match="a moment ago"):
        await server.ask_if_well(answered)


@pytest.mark.parametrize("status", [400, 422, 403])
async def test_a_refused_filter_is_the_querys_fault_and_a_refused_key_is_not(
    server: QdrantServer, status: int
) -> None:
    async def refused() -> str:
        raise UnexpectedResponse(status, "no", b"{}", httpx.Headers())

    with pytest.raises(QueryNotTaken if status != 403 else SourceError):
        await server.ask(refused())
    if status == 403:
        with pytest.raises(TransientSourceError, match="a moment ago"):
            await server.ask_if_well(answered)
    else:
        assert await server.ask_if_well(answered) == "an answer"
