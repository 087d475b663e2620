from __future__ import annotations

import os
from uuid import UUID

from orion_recall.text import ids
from orion_recall.text.ids import new_id


def test_every_id_is_a_random_uuid_and_none_comes_twice() -> None:
    made = [new_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert {UUID(one).version for one in made} == {4}
    assert {UUID(one).variant for one in made} == {"specified in RFC 4122"}


def test_a_forked_process_makes_other_ids() -> None:
    new_id()  # some are drawn ahead now
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_id().encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    theirs = os.read(reading, 100).decode()
    os.close(reading)
    assert len(theirs) == 36
    assert theirs not in [new_id() for _ in range(300)]


def test_the_system_is_asked_once_for_many() -> None:
    asked: list[int] = []
    drawing = ids._Random()  # pyright: ignore[reportPrivateUsage]
    real = os.urandom

    def counted(size: int) -> bytes:
        asked.append(size)
        return real(size)

    os.urandom = counted
    try:
        for _ in range(256):
            drawing.take()
    finally:
        os.urandom = real
    assert len(asked) == 1
