from __future__ import annotations

from orion_recall.graph.relation_words import kinds_of_ends, most_frequent_kind, relations_of_kind


def test_relations_tell_what_stands_at_their_ends():
    assert kinds_of_ends("Works at") == ("Person", "Organisation")
    assert kinds_of_ends("based in") == ("Organisation", "Place")
    assert kinds_of_ends("sister of") == ("Person", "Person")
    assert kinds_of_ends("loves") == ("Person", None)
    assert kinds_of_ends("fits into") == (None, None)


def test_those_that_tell_of_a_kind_are_found_among_the_graphs_own():
    relations = {"urn:1": "works at", "urn:2": "based in", "urn:3": "fits into"}
    assert relations_of_kind("Organisation", relations).subject == ("urn:2",)
    assert relations_of_kind("Organisation", relations).object == ("urn:1",)


def test_most_votes_win_and_of_two_the_first_kind():
    assert most_frequent_kind(["Place", "Person", "Place"]) == "Place"
    assert most_frequent_kind(["Place", "Person"]) == "Person"
    assert most_frequent_kind([]) is None
