"""What an extractor's statements say of two memories: one place, employer or spouse at a time, and nothing else."""

from __future__ import annotations

import pytest

from orion_recall.memory.record.successions import stated_by_extractor
from orion_recall.values import Memory, Statement


def memory(name: str, *edges: tuple[str, str, str], by: str = "llm") -> Memory:
    statements = tuple(Statement(subject=one, relation=relation, object=other) for one, relation, other in edges)
    return Memory(
        tenant="t",
        id=name,
        text="-",
        kind="world",
        text_hash="-",
        content_hash="-",
        statements=statements,
        extracted_by=by,
    )


OSLO = ("Ida", "lives in", "Oslo")
BERGEN = ("Ida", "moved to", "Bergen")


def test_another_object_of_a_one_valued_relation_is_a_succession_with_its_evidence():
    verdict = stated_by_extractor(memory("old", OSLO), memory("new", BERGEN))
    assert verdict is not None
    assert (verdict.probability, verdict.reason, verdict.evidence) == (1.0, "by_extractor", ("old", "new"))


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (OSLO, ("Ada", "lives in", "Bergen")),
        (OSLO, ("ida", "lives in", "OSLO")),
        (OSLO, ("Ida", "lives in", "Oslo, Norway")),
        (OSLO, ("Ida", "visited", "Bergen")),
        (OSLO, ("Ida", "works at", "Bergen")),
        (("door code in Oslo", "is", "4471"), ("door code in Bergen", "is", "9052")),
        (("Ida", "knows", "Bo"), ("Ida", "knows", "Cy")),
        (("v1.1", "fixes", "search"), ("v1.2", "replaces", "search")),
    ],
)
def test_anything_else_is_none(older: tuple[str, str, str], newer: tuple[str, str, str]):
    assert stated_by_extractor(memory("old", older), memory("new", newer)) is None


@pytest.mark.parametrize(("one", "other"), [("light", "llm"), ("llm", "light"), ("spacy", "spacy")])
def test_statements_read_by_rules_do_not_count(one: str, other: str):
    assert stated_by_extractor(memory("old", OSLO, by=one), memory("new", BERGEN, by=other)) is None
