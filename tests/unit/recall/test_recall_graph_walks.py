"""From a stored memory to an answer with its path: the flows of the graph-first pipeline, on real engines.

Store -> edges, update -> extracted anew, delete -> pruned, remember -> walks with a path as evidence, picture.
The record's part of each is tested in `tests/integration/test_memory_record.py`, merges and rebuilds beside it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.report.reply import explained
from tests.samples.copies import Copies, opened_copies
from tests.samples.recall_fakes import profile, query
from tests.samples.source_samples import TENANT, memory

NOW = datetime(2026, 5, 20, 9, tzinfo=UTC).timestamp()
DAY = 86_400.0
SISTER = memory("sister", "Ida is Ana's sister.", speaker="Ana", user_id="ana", occurred_at=NOW - 30 * DAY)
JOB = memory("job", "Ida works at Fjord Labs.", speaker="Bo", occurred_at=NOW - 29 * DAY)
MET = memory("met", "Ida met Carl on 12 May 2026.", speaker="Bo", occurred_at=NOW - 5 * DAY)
SAID = memory("said", "Ida knows Dora.", speaker="Bo", occurred_at=NOW - 8 * DAY)
NOISE = memory("noise", "The kettle is blue.", speaker="Bo", occurred_at=NOW - DAY)
ALL = (SISTER, JOB, MET, SAID, NOISE)


@pytest.fixture
async def copies(folder: Path, sparse: SparseEncoder, tokens: TokenCounter) -> AsyncIterator[Copies]:
    async with opened_copies(folder, sparse, tokens) as one:
        await one.store(*ALL)
        yield one


async def ask(copies: Copies, text: str, *traverse: str, **options: Any) -> Recalled:
    by = profile(graph={"paths": True, "traverse": list(traverse)}, ranking={"fusion": 0.7, "path": 2.0})
    return await recall(query(fragment=text, options=options), by, copies.sources, tenant=TENANT, now=NOW)


def first(recalled: Recalled) -> tuple[str, list[str]]:
    """The first memory, and the statements that the trace shows for it."""
    best = explained(recalled)["candidates"][0]
    return best["id"], best["statements"]


@pytest.mark.parametrize(
    ("text", "traverse", "name", "statements"),
    [
        ("Who is Ida?", ("who",), "sister", ["Ida sister of Ana"]),
        (
            "How is Ana related to Fjord Labs?",
            ("related",),
            "job",
            ["Ida sister of Ana", "Ida works at Fjord Labs"],
        ),
        ("What did Ida do on 12 May 2026?", ("temporal",), "met", ["Ida met Carl (2026-05-12)"]),
        ("Where does Ana's sister work?", (), "job", ["Ida sister of Ana", "Ida works at Fjord Labs"]),
    ],
)
async def test_a_question_is_answered_along_the_graph_with_the_path_as_its_evidence(
    copies: Copies, text: str, traverse: tuple[str, ...], name: str, statements: list[str]
):
    answer = await ask(copies, text, *traverse)
    assert first(answer) == (name, statements)
    assert answer.ranked[0].parts["path"] > 0


async def test_a_question_that_names_nobody_begins_at_the_one_who_asks(copies: Copies):
    answer = await ask(copies, "Who am I?", "who", user="Ana")
    assert first(answer) == ("sister", ["Ida sister of Ana"])
