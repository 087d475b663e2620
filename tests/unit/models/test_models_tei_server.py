from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orion_recall.models import tei
from orion_recall.models.tei import TeiServer

INFO = {
    "model_id": "m",
    "model_sha": "s",
    "model_dtype": "float32",
    "model_type": {"embedding": {"pooling": "mean"}},
}


async def test_while_the_model_is_asked_for_again_nobody_waits_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    server, answers = TeiServer("http://127.0.0.1:9"), asyncio.Event()
    hung: list[float | None] = []

    async def asked(method: str, path: str, body: Any = None, *, timeout_s: float | None = None) -> Any:
        hung.append(timeout_s)
        if len(hung) > 1:
            await answers.wait()
        return {}

    monkeypatch.setattr(server, "_ask", asked)
    monkeypatch.setattr(tei, "_KNOWN_S", -1.0)
    known: Any = object.__new__(tei.TeiInfo)

    def read(answer: object, url: str) -> Any:
        return known

    monkeypatch.setattr(tei, "_read_info", read)
    monkeypatch.setattr(tei.TeiInfo, "served", "m", raising=False)
    assert await server.info() is known
    refreshing = asyncio.create_task(server.info())
    await asyncio.sleep(0)
    assert await server.info() is known
    assert not refreshing.done()
    answers.set()
    assert await refreshing is known
    assert hung == [server._timeout_s, 5.0]  # pyright: ignore[reportPrivateUsage]
    await server.close()
