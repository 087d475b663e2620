"""What a query may see of the memories that were read for its candidates."""

from __future__ import annotations

import pytest

from orion_recall.recall.candidates.filters import Exclusions, visible
from orion_recall.recall.types import Dropped
from orion_recall.scoring.candidates import Candidate
from orion_recall.text.normal import memory_key
from orion_recall.values import Question, Scope, SourceName
from tests.samples.recall_fakes import view

QUESTION = Question(text="crane", dense_text="", keyword_text="", terms=frozenset(), now=0.0, text_hash="")


@pytest.mark.parametrize("tenant", ["default", "another"])
@pytest.mark.parametrize("found_by", [("notes",), ("notes", "vector")])
def test_a_memory_under_the_key_of_another_package_is_the_tenants_or_is_not_shown(
    tenant: str, found_by: tuple[SourceName, ...]
):
    key, dropped = memory_key(tenant, "m1"), Dropped()
    candidate = Candidate(key=key, ranks=dict.fromkeys(found_by, 1))
    kept = visible(
        [candidate], {key: view("m1")}, Scope(tenant="default"), QUESTION, Exclusions(ids=frozenset()), dropped
    )
    assert (len(kept), dict(dropped)) == ((1, {}) if tenant == "default" else (0, {"filtered": 1}))


def test_a_memory_that_a_source_reads_itself_has_a_key_of_its_own():
    memory, dropped = view("notes:1"), Dropped()
    candidate = Candidate(key=7, ranks={"notes": 1}, read=lambda: memory)
    kept = visible([candidate], {}, Scope(tenant="default"), QUESTION, Exclusions(ids=frozenset()), dropped)
    assert kept == [(candidate, memory)]
