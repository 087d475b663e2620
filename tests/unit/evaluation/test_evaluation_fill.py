from __future__ import annotations

from collections.abc import Mapping, Sequence

from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.fill import changes, fill
from orion_recall.memory.record.compose import compose
from orion_recall.values import Change, Memory, Neighbour


def turn(name: str, *, session: str | None = "s", tenant: str = "t", hour: int | None = None) -> Memory:
    fields = {"id": name, "text": f"this is {name}", "session_id": session, "speaker": "Ana"}
    if hour is not None:
        fields["occurred_at"] = f"2026-01-01T{hour:02}:00:00Z"
    return compose(MemoryV1.model_validate(fields), tenant)


def beside(steps: Sequence[Change]) -> dict[str, tuple[str | None, str | None]]:
    return {
        f"{step.memory.tenant}/{step.memory.id}": (
            step.previous.id if step.previous else None,
            step.following.id if step.following else None,
        )
        for step in steps
    }


def test_turns_stand_beside_each_other_by_time_and_then_by_place() -> None:
    steps = changes(
        [
            turn("late", hour=9),
            turn("undated"),
            turn("early", hour=7),
            turn("also-late", hour=9),
            turn("other", session="x", hour=8),
            turn("alone", session=None, hour=8),
            turn("late", tenant="u", hour=8),
        ]
    )
    assert [step.position for step in steps] == [1, 2, 3, 4, 5, 6, 7]
    assert beside(steps) == {
        "t/undated": (None, "early"),
        "t/early": ("undated", "late"),
        "t/late": ("early", "also-late"),
        "t/also-late": ("late", None),
        "t/other": (None, None),
        "t/alone": (None, None),
        "u/late": (None, None),
    }
    assert steps[0].previous == Neighbour(id="early", text="this is early", speaker="Ana")


class Copy:
    """A projection that keeps what it is given."""

    kind = "copy"
    shared = False
    copy: str | None = None
    damage: str | None = None
    stalled: str | None = None

    def __init__(self) -> None:
        self.got: list[list[int]] = []

    @property
    def position(self) -> int:
        return self.got[-1][-1] if self.got else 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def apply(self, changes: Sequence[Change]) -> None:
        self.got.append([change.position for change in changes])

    async def held(self) -> Mapping[int, int]:
        return {}

    async def remove(self, keys: Sequence[int]) -> None:
        raise AssertionError(keys)


async def test_every_projection_gets_every_step_in_order() -> None:
    one, other, told = Copy(), Copy(), list[int]()
    await fill((one, other), changes([turn(f"m{number}") for number in range(450)]), told.append)
    assert [len(batch) for batch in one.got] == [200, 200, 50]
    assert one.got == other.got
    assert [position for batch in one.got for position in batch] == list(range(1, 451))
    assert told == [200, 400, 450]
