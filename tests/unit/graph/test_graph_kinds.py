from __future__ import annotations

from orion_recall.graph.kinds import ends_of, kind_by, telling


def test_relations_tell_what_stands_at_their_ends():
    assert ends_of("Works at") == ("Person", "Organisation")
    assert ends_of("based in") == ("Organisation", "Place")
    assert ends_of("sister of") == ("Person", "Person")
    assert ends_of("loves") == ("Person", None)
    assert ends_of("fits into") == (None, None)


def test_those_that_tell_of_a_kind_are_found_among_the_graphs_own():
    relations = {"urn:1": "works at", "urn:2": "based in", "urn:3": "fits into"}
    assert telling("Organisation", relations).subject == ("urn:2",)
    assert telling("Organisation", relations).object == ("urn:1",)


def test_most_votes_win_and_of_two_the_first_kind():
    assert kind_by(["Place", "Person", "Place"]) == "Place"
    assert kind_by(["Place", "Person"]) == "Person"
    assert kind_by([]) is None
