from __future__ import annotations

from pathlib import Path

from tests.bench.approximate import LARGE, SMALL, compare


async def test_what_is_searched_exactly_is_found_whole(tmp_path: Path) -> None:
    """So few memories have no search graph: whatever is missing here, the bench has lost."""
    found = await compare(400, 20, tmp_path)
    assert [(one.index, one.tenant, one.memories) for one in found] == [
        ("as written", LARGE, 200),
        ("as written", SMALL, 200),
        ("optimised", LARGE, 200),
        ("optimised", SMALL, 200),
    ]
    for one in found:
        assert one.recall[10] >= 0.99
        assert one.recall[100] >= 0.99
        assert 0 < one.p50_ms <= one.p95_ms
