"""Whatever a value is, SPARQL reads it back as that value and nothing more."""

from __future__ import annotations

import pyoxigraph
from hypothesis import example, given
from hypothesis import strategies as st
from rdflib import Literal

from orion_recall.graph.vocabulary import sparql_term

# The characters that mean something in a literal, and a few that do not.
TEXTS = st.text(st.sampled_from("\"'\\\n\r\tu0{}<>#;.ab ü\u2028"), max_size=12) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12
)


def read_back(term: str) -> list[tuple[str, str]]:
    """Value and kind of the one term, as an engine reads it."""
    found = pyoxigraph.Store().query(f'SELECT ?x ("end" AS ?y) WHERE {{ VALUES ?x {{ {term} }} }}')
    assert isinstance(found, pyoxigraph.QuerySolutions)
    return [(row["x"].value, row["y"].value) for row in found]


@given(TEXTS)
@example('two\nlines\\"')
@example('\n"""')
@example("\n\\u0022")
def test_a_text_is_read_back_as_it_was(text: str):
    assert read_back(sparql_term(Literal(text))) == [(text, "end")]
    assert "\n" not in sparql_term(Literal(text))
