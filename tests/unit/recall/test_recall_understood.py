from __future__ import annotations

from recall_fakes import NOW, profile, query

from orion_recall.recall.understand import understand
from orion_recall.recall.understood import understood


def test_times_are_told_in_utc_with_the_words_that_decided_them():
    asked = understand(
        query("When did Ana leave after May 2023?", options={"timezone": "+02:00"}),
        profile(),
        now=NOW,
        speakers=frozenset(),
    )
    interval = {"from": "2023-05-31T22:00:00Z", "until": None, "kind": "open", "words": "after May 2023"}
    time = {"intervals": [interval], "asks_when": True, "session": None}
    assert understood(asked) == {"time": time}
    interval.pop("words")
    assert understood(asked, with_words=False) == {"time": time}
