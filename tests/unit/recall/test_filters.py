"""What a query may see of the memories that were read for its candidates."""

from __future__ import annotations

import pytest

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.candidates.filters import visible
from orion_recall.scoring.candidates import Candidate
from orion_recall.text.normal import memory_key
from orion_recall.values import SourceName
from tests.samples.recall_fakes import search_pass, view


@pytest.mark.parametrize("tenant", ["default", "another"])
@pytest.mark.parametrize("found_by", [("notes",), ("notes", "vector")])
def test_a_memory_under_the_key_of_another_package_is_the_tenants_or_is_not_shown(
    tokens: TokenCounter, tenant: str, found_by: tuple[SourceName, ...]
):
    key, pool = memory_key(tenant, "m1"), search_pass(tokens)
    candidate = Candidate(key=key, ranks=dict.fromkeys(found_by, 1))
    pool.found.memories = {key: view("m1")}
    kept = visible(pool, [candidate])
    assert (len(kept), dict(pool.found.dropped)) == ((1, {}) if tenant == "default" else (0, {"filtered": 1}))


def test_a_memory_that_a_source_reads_itself_has_a_key_of_its_own(tokens: TokenCounter):
    memory = view("notes:1")
    candidate = Candidate(key=7, ranks={"notes": 1}, read=lambda: memory)
    kept = visible(search_pass(tokens), [candidate])
    assert kept == [(candidate, memory)]
