from __future__ import annotations

from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from orion_recall.errors import BusUnavailable
from orion_recall.serving.canary_bus import TrialsOnBus
from orion_recall.serving.canary_trial import SharedTrial
from orion_recall.settings import Settings


class Redis:
    """Answers with the fields, or raises."""

    def __init__(self, fields: dict[bytes, bytes] | None = None) -> None:
        self._fields = fields

    async def hgetall(self, _key: str) -> dict[bytes, bytes]:
        if self._fields is None:
            raise RedisConnectionError("away")
        return self._fields

    def pipeline(self, *, transaction: bool) -> Any:
        raise RedisConnectionError("away")


def trials(fields: dict[bytes, bytes] | None) -> TrialsOnBus:
    return TrialsOnBus(cast("Any", Redis(fields)), Settings())


async def test_a_trial_is_read_and_none_is_none() -> None:
    assert await trials({}).read("t") is None
    fields = {b"step": b"1", b"began": b"7.5", b"taken_back": b"worse"}
    assert await trials(fields).read("t") == SharedTrial(step=1, began=7.5, taken_back="worse")


@pytest.mark.parametrize("fields", [None, {b"step": b"one", b"began": b"0"}, {b"step": b"1"}])
async def test_one_that_cannot_be_read_says_so(fields: dict[bytes, bytes] | None) -> None:
    with pytest.raises(BusUnavailable):
        await trials(fields).read("t")


async def test_what_cannot_be_written_is_left(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        await trials({}).write("t", SharedTrial(step=0, began=0.0))
    assert "the canary trial t is not written: away" in caplog.text
