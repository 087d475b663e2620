"""Ids on a command line: whole, or by a prefix that only one has."""

from __future__ import annotations

import pytest

from orion_recall.cli.connect.ids import full_id
from orion_recall.errors import SettingsError


class Ids:
    """Ids that are looked up by their beginning."""

    def __init__(self, *ids: str) -> None:
        self._ids = ids

    async def starting(self, prefix: str, limit: int) -> list[str]:
        """Those that begin so, the equal one first."""
        return sorted((one for one in self._ids if one.startswith(prefix)), key=lambda one: one != prefix)[:limit]


async def test_a_prefix_that_one_id_has_is_that_id_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert await full_id("memory", "m-12", Ids("m-1234567", "m-99").starting) == "m-1234567"
    assert capsys.readouterr().err == "m-12 is m-1234567\n"


async def test_a_whole_id_is_itself_though_others_begin_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert await full_id("memory", "m-12", Ids("m-12", "m-123", "m-124").starting) == "m-12"
    assert await full_id("memory", "a", Ids("a", "ab").starting) == "a"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("given", ["m-1", "m", "", "x-1234"])
async def test_a_prefix_that_is_too_short_or_that_no_id_has_is_none(given: str) -> None:
    assert await full_id("memory", given, Ids("m-1234567").starting) is None


async def test_a_prefix_of_several_ids_is_refused_with_up_to_five_of_them() -> None:
    names = [f"m-12{number}" for number in range(9)]
    with pytest.raises(SettingsError, match=r"'m-12' is the beginning of several memory ids") as few:
        await full_id("memory", "m-12", Ids(*names[:2]).starting)
    assert str(few.value).endswith(": m-120, m-121; give more characters")
    with pytest.raises(SettingsError, match=r"m-120, m-121, m-122, m-123, m-124, and more; give more characters"):
        await full_id("memory", "m-12", Ids(*names).starting)
