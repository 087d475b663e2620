"""Parses a subset of Cypher (https://opencypher.org): MATCH, WHERE, RETURN. The grammar is in `cypher.lark`.

Anything else is a syntax error with its place and the tokens expected there.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import cast

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.exceptions import VisitError

from orion_recall.errors import GraphQueryError
from orion_recall.graph.cypher.tree import MOST_CHARACTERS, Query
from orion_recall.graph.cypher.tree_builder import TreeBuilder  # pyright: ignore[reportUnknownVariableType]

_DEEPEST = 50


def parse(text: str) -> Query:
    """The query as a tree; GraphQueryError with line, column and what was expected."""
    if len(text) > MOST_CHARACTERS:
        raise GraphQueryError(f"the query has {len(text)} characters: {MOST_CHARACTERS} are the most")
    if re.search("[\x00\ud800-\udfff]", text):
        raise GraphQueryError("the query holds a NUL or half a character")
    _check_depth(text)
    try:
        tree = _grammar().parse(text)  # pyright: ignore[reportUnknownMemberType]
        return cast("Query", TreeBuilder(text).transform(tree))  # pyright: ignore[reportUnknownMemberType]
    except UnexpectedInput as error:
        raise _syntax_error(error, text) from None
    except VisitError as error:
        if isinstance(error.orig_exc, GraphQueryError):
            raise error.orig_exc from None
        raise


@cache
def _grammar() -> Lark:
    text = (Path(__file__).parent / "cypher.lark").read_text("utf-8")
    return Lark(text, start="query", parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _check_depth(text: str) -> None:
    """Refuses deep nesting of brackets and NOTs, which would exhaust Python's recursion."""
    bare = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`\r\n]*`", "", text, flags=re.DOTALL)
    depth = deepest = 0
    for character in bare:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    if deepest > _DEEPEST or len(re.findall(r"\bnot\b", bare, re.IGNORECASE)) > _DEEPEST:
        raise GraphQueryError(
            f"the query is nested too deeply: {_DEEPEST} brackets in each other, or NOTs, are the most"
        )


# The names of tokens in error messages.
_SHOWN = {
    "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}", "COLON": ":", "COMMA": ",",
    "DOT": ".", "STAR": "*", "MINUS": "-", "VBAR": "|", "EQUAL": "=", "LESSTHAN": "<", "MORETHAN": ">",
    "SEMICOLON": ";", "NAME": "a name", "STRING": "a text in quotes", "INT": "a whole number", "NUMBER": "a number",
    "QUOTED": "a `name`", "$END": "the end",
}  # fmt: skip


def _syntax_error(error: UnexpectedInput, text: str) -> GraphQueryError:
    line, column = error.line, error.column
    expected: set[str] = set()
    found = "this"
    if isinstance(error, UnexpectedToken):
        token = cast("Token", error.token)  # pyright: ignore[reportUnknownMemberType]
        expected = set(error.accepts or error.expected)
        found = f"{str(token)[:40]!r}"
        if token.type == "$END":
            found = "the query ends"
            line, column = text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
    elif isinstance(error, UnexpectedCharacters):
        character = cast("str", error.char)  # pyright: ignore[reportUnknownMemberType]
        if character in "'\"":
            return GraphQueryError("this text has no end", text=text, line=line, column=column)
        expected, found = set(error.allowed or ()), f"{character!r}"
    terminals = {terminal.name: terminal for terminal in _grammar().terminals}
    shown: list[str] = []
    for name in expected:
        terminal = terminals.get(name)
        plain = _SHOWN.get(name) or (terminal.pattern.value if terminal is not None else name)
        shown.append(plain if plain[0].isalpha() else repr(plain))
    shown.sort(key=lambda one: (not one[0].isalpha(), one))  # names and words first, then marks
    what = " or ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
    told = f"{found} where {what} was expected" if shown else f"{found} is not expected here"
    return GraphQueryError(told, text=text, line=line, column=column)
