"""The stored form of memories and patches, conditions of messages as SQL, and merged names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.contracts import MemoryV1, MemoryWhereV1
from orion_recall.errors import InvalidMessage
from orion_recall.memory.record.aliases import Aliases, NameKey
from orion_recall.memory.record.compose import as_message, compose, content_hash
from orion_recall.memory.record.record import conditions
from orion_recall.memory.record.successions import is_stated_by_extractor
from orion_recall.text.normal import one_line, storable
from orion_recall.values import Memory, MergedName, Statement


def memory(text: str, **fields: Any) -> Memory:
    return compose(MemoryV1.model_validate({"id": "a", "text": text, **fields}), "t")


BOB = Aliases(
    called={NameKey("t", "entity", "bob"): "Robert Miles", NameKey("t", "relation", "moved to"): "lives in"},
    standing={NameKey("t", "entity", "robert miles"): MergedName(label="Robert Miles", aliases=("Bob",))},
)


def test_names_and_relations_are_told_under_the_names_they_were_merged_into() -> None:
    told = BOB.applied(memory("Bob moved to Oslo.", speaker="BOB", entities=["Oslo"]))
    assert (told.entities, told.speaker) == (("Robert Miles", "Oslo"), "BOB")
    assert told.statements == (Statement(subject="Robert Miles", relation="lives in", object="Oslo"),)


def test_other_tenants_and_other_names_stay() -> None:
    said = compose(MemoryV1(id="a", text="Bob moved to Oslo."), "other")
    assert BOB.applied(said) == said
    assert BOB.merged_in(said) == ()
    assert Aliases().applied(memory("Bob rows.")) == memory("Bob rows.")


def message(**fields: Any) -> MemoryV1:
    return MemoryV1.model_validate({"id": "m1", "text": "I work at Fjord Labs.", **fields})


def test_the_content_hash_does_not_depend_on_spelling_id_or_tenant() -> None:
    plain = message(occurred_at="2026-03-01T09:30:00Z", metadata={"a": 1, "b": 2})
    respelt = message(
        id="m2", tenant="t", kind="experience", title=None, occurred_at=1772357400, metadata={"b": 2, "a": 1}
    )
    assert content_hash(plain) == content_hash(respelt)
    assert re.fullmatch("[0-9a-f]{64}", content_hash(plain))


@pytest.mark.parametrize(
    "change",
    [
        {"text": "other"}, {"title": "t"}, {"speaker": "Bo"}, {"kind": "world"}, {"session_id": "s"},
        {"node_id": "n"}, {"user_id": "u"}, {"agent_id": "a"}, {"run_id": "r"}, {"tags": ["x"]},
        {"entities": ["x"]}, {"source": "s"}, {"uri": "u"}, {"metadata": {"a": 1}},
        {"occurred_at": "2026-03-01T09:30:00Z"}, {"occurred_until": "2026-03-01T09:30:00Z"},
        {"mentioned_at": "2026-03-01T09:30:00Z"},
    ],
)  # fmt: skip
def test_any_changed_field_changes_the_content_hash(change: dict[str, Any]) -> None:
    assert content_hash(message()) != content_hash(message(**change))


@given(text=st.text(min_size=1, max_size=200), speaker=st.text(max_size=20))
@example(text="\x00", speaker="")  # stored as U+FFFD, which can be seen
def test_every_valid_text_can_be_composed(text: str, speaker: str) -> None:
    if not one_line(storable(text)):
        with pytest.raises(InvalidMessage, match="nothing to be seen"):
            compose(message(text=text, speaker=speaker), "acme")
        return
    memory = compose(message(text=text, speaker=speaker), "acme")
    assert memory.text.encode()


def test_a_memory_without_a_kind_is_an_experience_and_what_its_text_says_it_is():
    todo = compose(MemoryV1(id="m1", text="TODO: renew the passport"), "default")
    assert (todo.kind, todo.guessed_kind, todo.kind_confidence) == ("experience", "task", 0.9)
    plain = compose(MemoryV1(id="m1", text="We went to Bergen."), "default")
    assert (plain.kind, plain.guessed_kind, plain.kind_confidence) == ("experience", None, 0.5)
    given = compose(MemoryV1(id="m1", text="TODO: renew the passport", kind="experience"), "default")
    assert (given.kind, given.guessed_kind, given.kind_confidence) == ("experience", None, None)
    assert todo.content_hash == given.content_hash, "as of memories that were stored before"
    assert as_message(todo).kind is None
    assert as_message(given).kind == "experience"


def test_what_is_said_never_becomes_sql():
    nasty = "'; DROP TABLE memories; --"
    condition, values = conditions(nasty, MemoryWhereV1.model_validate({"speaker": nasty, "tags": [nasty]}))
    assert "DROP" not in condition
    assert values == [nasty, nasty, [nasty]]


def stating(name: str, *edges: tuple[str, str, str], by: str = "llm") -> Memory:
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


def test_another_object_of_a_one_valued_relation_is_a_succession():
    assert is_stated_by_extractor(stating("old", OSLO), stating("new", BERGEN))


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
    assert not is_stated_by_extractor(stating("old", older), stating("new", newer))


@pytest.mark.parametrize(("one", "other"), [("light", "llm"), ("llm", "light"), ("spacy", "spacy")])
def test_statements_read_by_rules_do_not_count(one: str, other: str):
    assert not is_stated_by_extractor(stating("old", OSLO, by=one), stating("new", BERGEN, by=other))
