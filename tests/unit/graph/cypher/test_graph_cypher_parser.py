"""What is Cypher here, and what is said of what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.errors import GraphQueryError
from orion_recall.graph.cypher.syntax import AnyOf, Comparison, Negated, comparisons, parse


def test_the_whole_of_a_query_is_read():
    query = parse(
        "match (a:Person {name: 'Ada'})<-[r:KNOWS|`works at`*1..2]-(b), (c) -- (a)\n"
        'WHERE b.name SIMILAR "engineer" AND (NOT c.name = \'x\' OR a.name starts WITH "y") // why\n'
        "RETURN DISTINCT a, b.name AS who, count(*) ORDER BY count(*) DESC, who SKIP 2 LIMIT 7;"
    )
    first, second = query.chains
    assert [node.variable for node in first.nodes] == ["a", "b"]
    assert first.nodes[0].label is not None and first.nodes[0].label.text == "Person"
    (relation,) = first.relations
    assert [word.text for word in relation.types] == ["KNOWS", "works at"]
    assert (relation.low, relation.high, relation.direction, relation.named) == (1, 2, "left", True)
    assert second.relations[0].direction == "either"
    names = [(one.variable, one.operator, one.value) for part in query.conditions for one in comparisons(part)]
    assert names == [("a", "=", "Ada"), ("b", "SIMILAR", "engineer"), ("c", "=", "x"), ("a", "STARTS WITH", "y")]
    assert isinstance(query.conditions[2], AnyOf) and isinstance(query.conditions[2].parts[0], Negated)
    assert [item.name for item in query.items] == ["a", "who", "count(*)"]
    assert [(item.name, way) for item, way in query.order] == [("count(*)", True), ("who", False)]
    assert (query.distinct, query.skip, query.limit) == (True, 2, 7)


@pytest.mark.parametrize(
    ("query", "message", "line", "column"),
    [
        ("", "the query ends where MATCH was expected", 1, 1),
        ("DELETE (a)", "'DELETE' where MATCH was expected", 1, 1),
        ("MATCH (a RETURN a", r"'RETURN' where '\)', ':' or '\{' was expected", 1, 10),
        ("MATCH (a)\nWHERE a.name ~ 'x'", "'~' where .*CONTAINS.* was expected", 2, 14),
        ("MATCH (a)", "the query ends where RETURN, WHERE, .* was expected", 1, 10),
        ("MATCH (a)\nRETURN", "the query ends where COUNT, DISTINCT or a name was expected", 2, 7),
        ("MATCH (a) WHERE a.name = 'x RETURN a", "this text has no end", 1, 26),
        ("MATCH (a) WHERE a.name = RETURN a", "'RETURN' where .*a text in quotes.* was expected", 1, 26),
        ("MATCH (a) RETURN a LIMIT -1", "'-' where a whole number was expected", 1, 26),
        ("MATCH (a) RETURN a LIMIT 999999", "LIMIT 999999: 10000 is the most", 1, 26),
        ("MATCH (a) RETURN a SKIP 9999999", "SKIP 9999999: 100000 is the most", 1, 25),
        ("MATCH (a)-[*]->(b) RETURN a", r"up to 5: \*1..5", 1, 10),
        ("MATCH (a)-[*1..]->(b) RETURN a", r"up to 5: \*1..5", 1, 13),
        ("MATCH (a)-[*1..6]->(b) RETURN a", "1..6 hops: from 1 to 5", 1, 13),
        ("MATCH (a)-[*0..1]->(b) RETURN a", "0..1 hops: from 1 to 5", 1, 13),
        (r"MATCH (a {name: 'x\q'}) RETURN a", r"there is no escape \\q", 1, 17),
        (r"MATCH (a {name: '\ud800'}) RETURN a", r"there is no escape \\ud800", 1, 17),
        ("MATCH (a) RETURN a, a", "a is returned twice: name one of them with AS", 1, 21),
    ],
)
def test_mistakes_are_named_with_their_place(query: str, message: str, line: int, column: int):
    with pytest.raises(GraphQueryError, match=message) as caught:
        parse(query)
    assert (caught.value.line, caught.value.column) == (line, column)
    *_, caret = str(caught.value).splitlines()
    assert caret == f"  {' ' * (column - 1)}^"


@pytest.mark.parametrize(
    "query",
    ["MATCH (a) RETURN a" + " " * 8000, "MATCH (a) WHERE " + "(" * 60 + "a.x = 1" + ")" * 60 + " RETURN a",
     "MATCH (a) WHERE " + "NOT " * 60 + "a.x = 1 RETURN a", "MATCH (a) RETURN a\x00", "MATCH (a) RETURN \ud800"],
)  # fmt: skip
def test_what_is_too_long_too_deep_or_no_text_is_refused(query: str):
    with pytest.raises(GraphQueryError, match=r"the query (has|is|holds)"):
        parse(query)


QUOTES = {"'": "\\'", '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40), st.sampled_from("'\""))
def test_any_text_can_be_written_and_is_read_back(text: str, quote: str):
    inside = "".join(QUOTES.get(character, character) for character in text)
    (condition,) = parse(f"MATCH (a) WHERE a.name = {quote}{inside}{quote} RETURN a").conditions
    assert isinstance(condition, Comparison) and condition.value == text


@given(st.text(max_size=60))
def test_whatever_is_written_is_read_or_refused(text: str):
    for query in (text, f"MATCH {text} RETURN a", f"MATCH (a) WHERE {text} RETURN a"):
        try:
            parse(query)
        except GraphQueryError as error:
            assert str(error)
