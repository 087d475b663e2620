from __future__ import annotations

from typing import Any

from orion_recall.contracts import MemoryV1
from orion_recall.memory.record.aliases import Aliases, NameKey
from orion_recall.memory.record.compose import compose
from orion_recall.values import Change, Memory, MergedName, Statement


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


def test_what_comes_to_the_same_is_told_once() -> None:
    said = memory("Bob moved to Oslo. robert miles lives in Oslo.", entities=["robert miles", "Oslo"])
    told = BOB.applied(said)
    assert [name.casefold() for name in told.entities].count("robert miles") == 1
    assert len(told.statements) == 1
    assert told.statements[0].subject in told.entities
    assert all(said.statements)


def test_other_tenants_and_other_names_stay() -> None:
    said = compose(MemoryV1(id="a", text="Bob moved to Oslo."), "other")
    assert BOB.applied(said) == said
    assert BOB.merged_in(said) == ()
    assert Aliases().applied(memory("Bob rows.")) == memory("Bob rows.")


def test_a_change_knows_what_a_name_is_called() -> None:
    said = memory("Ana rows.", speaker="Bob")
    change = Change(position=1, memory=BOB.applied(said), merged=BOB.merged_in(said))
    assert change.merged == (MergedName(label="Robert Miles", aliases=("Bob",)),)
    assert (change.called("BOB"), change.called("Ana")) == ("Robert Miles", "Ana")
