from __future__ import annotations

import gc
from typing import Any, cast

import pytest

from orion_recall.client import RecallClient
from orion_recall.errors import InvalidMessage


class NeverAsked:
    async def xadd(self, *_: object, **__: object) -> None:
        raise AssertionError("nothing is to be sent")


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        ({"id": "m", "text": "x" * 2000}, "workers read 1024 at most: send less"),
        ({"id": "m", "text": "x", "confidence": float("nan")}, "cannot be written as JSON"),
    ],
)
async def test_what_no_worker_could_read_is_not_sent_and_waits_for_nothing(
    memory: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    redis = cast(Any, NeverAsked())
    client = RecallClient(redis, redis, prefix="", service="test", max_message_bytes=1024)
    with pytest.raises(InvalidMessage, match=why):
        await client.store([memory])
    client._give_up()  # pyright: ignore[reportPrivateUsage]
    gc.collect()
    assert "never retrieved" not in caplog.text
