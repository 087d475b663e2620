from __future__ import annotations

from orion_recall.memory.names.merges import Link, resolved


def test_a_chain_is_called_by_its_end_spelt_as_first_asked_for() -> None:
    links = [
        Link("entity", "bob", "Robert Miles"),
        Link("entity", "bobby", "ROBERT MILES"),
        Link("entity", "r. miles", "bob"),
        Link("relation", "bob", "x"),
    ]
    assert resolved(links) == {
        ("entity", "bob"): "Robert Miles",
        ("entity", "bobby"): "Robert Miles",
        ("entity", "r. miles"): "Robert Miles",
        ("relation", "bob"): "x",
    }
    longer = resolved([*links, Link("entity", "robert miles", "R. J. Miles")])
    assert {label for (kind, _), label in longer.items() if kind == "entity"} == {"R. J. Miles"}
