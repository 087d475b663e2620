"""A small part of Cypher (https://opencypher.org): its syntax tree, and the parser.

One MATCH, WHERE with `=`, SIMILAR and AND, RETURN, LIMIT; the grammar is in `cypher.lark`. Anything else is an
error with its place and what was expected there; what this part leaves out is asked for in SPARQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.exceptions import VisitError
from lark.visitors import v_args  # pyright: ignore[reportUnknownVariableType]

from orion_recall.errors import GraphQueryError

MOST_CHARACTERS = 8_000
MOST_HOPS = 5
DEFAULT_LIMIT, MOST_LIMIT = 100, 10_000

Direction = Literal["right", "left", "either"]


class Place(NamedTuple):
    """A position in the query's text, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`variable.property operator value`, from WHERE or from the properties of a node or relation."""

    variable: str
    property: str
    operator: Literal["=", "SIMILAR"]
    value: str | float
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`(variable:label)`; an unnamed node gets a variable that begins with #."""

    variable: str
    label: str | None
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """`-[variable:types*low..high]->`; an unnamed one gets a variable that begins with #."""

    variable: str
    types: tuple[str, ...]
    low: int
    high: int
    direction: Direction
    at: Place


@dataclass(frozen=True, slots=True)
class Chain:
    """Nodes with a relation between each two neighbours."""

    nodes: tuple[Node, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An item of RETURN, `name` as it was written: a property, or a whole variable where `property` is empty."""

    name: str
    variable: str
    property: str
    at: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A whole query; all `comparisons` must hold."""

    chains: tuple[Chain, ...]
    comparisons: tuple[Comparison, ...]
    items: tuple[Item, ...]
    limit: int
    text: str

    def error(self, message: str, at: Place) -> GraphQueryError:
        """The error with its place in the query."""
        return GraphQueryError(message, text=self.text, line=at.line, column=at.column)


def _at(token: Token) -> Place:
    return Place(token.line or 1, token.column or 1)


_ESCAPED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "/": "/",
}


class _Hops(NamedTuple):
    low: int
    high: int | None
    at: Place | None


_Pair = tuple[Token, str | float]


@v_args(inline=True)
class _Tree(Transformer[Token, Any]):
    """A method for each rule of the grammar; optional parts that are missing are None."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._unnamed = 0
        self._comparisons: list[Comparison] = []

    def _wrong(self, message: str, at: Place) -> GraphQueryError:
        return GraphQueryError(message, text=self._text, line=at.line, column=at.column)

    def literal(self, value: Token) -> str | float:
        return float(value) if value.type == "NUMBER" else self._string(value)

    def _string(self, token: Token) -> str:
        def plain(match: re.Match[str]) -> str:
            escape = match[1]
            if len(escape) == 5:
                character = chr(int(escape[1:], 16))
                if not ("\ud800" <= character <= "\udfff" or character == "\0"):
                    return character
            elif escape in _ESCAPED:
                return _ESCAPED[escape]
            raise self._wrong(f"there is no escape \\{escape}", _at(token))

        return re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", plain, token[1:-1], flags=re.DOTALL)

    def types(self, *names: Token) -> tuple[str, ...]:
        return tuple(name[1:-1] if name.type == "QUOTED" else str(name) for name in names)

    def exactly(self, count: Token | None) -> _Hops:
        return _Hops(1, None, None) if count is None else _Hops(int(count), int(count), _at(count))

    def between(self, low: Token | None, high: Token | None) -> _Hops:
        place = low if low is not None else high
        return _Hops(
            1 if low is None else int(low),
            None if high is None else int(high),
            None if place is None else _at(place),
        )

    def property(self, name: Token, value: str | float) -> _Pair:
        return name, value

    def properties(self, *pairs: _Pair) -> tuple[_Pair, ...]:
        return pairs

    def _variable(self, name: Token | None, properties: tuple[_Pair, ...] | None) -> str:
        self._unnamed += 1
        variable = f"#{self._unnamed}" if name is None else str(name)
        for one, value in properties or ():
            self._comparisons.append(
                Comparison(variable=variable, property=str(one), operator="=", value=value, at=_at(one))
            )
        return variable

    @v_args(inline=False, meta=True)
    def node(self, meta: Any, parts: list[Any]) -> Node:
        name, label, properties = parts
        return Node(
            variable=self._variable(name, properties),
            label=None if label is None else str(label),
            at=Place(meta.line, meta.column),
        )

    def body(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def _relation(self, direction: Direction, meta: Any, body: list[Any]) -> Relation:
        name, types, hops, properties = body[0] if body else (None, None, None, None)
        low, high, place = hops or _Hops(1, 1, None)
        at = place or Place(meta.line, meta.column)
        if high is None:
            raise self._wrong(f"say how many hops at most, up to {MOST_HOPS}: *1..{MOST_HOPS}", at)
        if not 1 <= low <= high <= MOST_HOPS:
            raise self._wrong(f"{low}..{high} hops: from 1 to {MOST_HOPS}, the smaller first", at)
        variable = self._variable(name, properties)
        return Relation(variable=variable, types=types or (), low=low, high=high, direction=direction, at=at)

    @v_args(inline=False, meta=True)
    def right(self, meta: Any, body: list[Any]) -> Relation:
        return self._relation("right", meta, body)

    @v_args(inline=False, meta=True)
    def left(self, meta: Any, body: list[Any]) -> Relation:
        return self._relation("left", meta, body)

    @v_args(inline=False, meta=True)
    def either(self, meta: Any, body: list[Any]) -> Relation:
        return self._relation("either", meta, body)

    def chain(self, *parts: Node | Relation) -> Chain:
        return Chain(
            tuple(part for part in parts if isinstance(part, Node)),
            tuple(part for part in parts if isinstance(part, Relation)),
        )

    def comparison(self, variable: Token, name: Token, operator: Token, value: str | float) -> Comparison:
        return Comparison(
            variable=str(variable),
            property=str(name),
            operator="=" if operator == "=" else "SIMILAR",
            value=value,
            at=_at(variable),
        )

    def where(self, *comparisons: Comparison) -> None:
        self._comparisons += comparisons

    def item(self, variable: Token, name: Token | None) -> Item:
        shown = str(variable) if name is None else f"{variable}.{name}"
        return Item(name=shown, variable=str(variable), property=str(name or ""), at=_at(variable))

    def limit(self, number: Token) -> int:
        if int(number) > MOST_LIMIT:
            raise self._wrong(f"LIMIT {number}: {MOST_LIMIT} is the most", _at(number))
        return int(number)

    def query(self, *parts: Chain | Item | int | None) -> Query:
        items = tuple(part for part in parts if isinstance(part, Item))
        for place, item in enumerate(items):
            if item.name in [one.name for one in items[:place]]:
                raise self._wrong(f"{item.name} is returned twice", item.at)
        return Query(
            chains=tuple(part for part in parts if isinstance(part, Chain)),
            comparisons=tuple(self._comparisons),
            items=items,
            limit=next((part for part in parts if isinstance(part, int)), DEFAULT_LIMIT),
            text=self._text,
        )


def parse(text: str) -> Query:
    """The query as a tree; GraphQueryError with line, column and what was expected."""
    if len(text) > MOST_CHARACTERS:
        raise GraphQueryError(f"the query has {len(text)} characters: {MOST_CHARACTERS} are the most")
    if re.search("[\x00\ud800-\udfff]", text):
        raise GraphQueryError("the query holds a NUL or half a character")
    try:
        tree = _grammar().parse(text)  # pyright: ignore[reportUnknownMemberType]
        return cast("Query", _Tree(text).transform(tree))  # pyright: ignore[reportUnknownMemberType]
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


# The names of tokens in error messages.
_SHOWN = {
    "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}", "COLON": ":", "COMMA": ",",
    "DOT": ".", "STAR": "*", "MINUS": "-", "VBAR": "|", "SEMICOLON": ";", "NAME": "a name",
    "STRING": "a text in quotes", "INT": "a whole number", "NUMBER": "a number", "QUOTED": "a `name`",
    "OPERATOR": "= or SIMILAR", "$END": "the end",
}  # fmt: skip
_LEFT_OUT = re.compile(
    r"""\b(?:ORDER\s+BY|SKIP|DISTINCT|COUNT|OR|NOT|CONTAINS|(?:STARTS|ENDS)\s+WITH|DURING|AS|OPTIONAL|UNION|CREATE
    |MERGE|DELETE|SET|REMOVE)\b|<>|[<>]=?""",
    re.VERBOSE | re.IGNORECASE,
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`\r\n]*`|<-|->", re.DOTALL)


def _syntax_error(error: UnexpectedInput, text: str) -> GraphQueryError:
    line, column = error.line, error.column
    expected: set[str] = set()
    found = "this"
    if isinstance(error, UnexpectedToken):
        token = cast("Token", error.token)  # pyright: ignore[reportUnknownMemberType]
        expected, found = set(error.accepts or error.expected), f"{str(token)[:40]!r}"
        if token.type == "$END":
            found = "the query ends"
            line, column = text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
    elif isinstance(error, UnexpectedCharacters):
        character = cast("str", error.char)  # pyright: ignore[reportUnknownMemberType]
        if character in "'\"":
            return GraphQueryError("this text has no end", text=text, line=line, column=column)
        expected, found = set(error.allowed or ()), f"{character!r}"
    shown = sorted(_SHOWN.get(name, name.strip("_")) for name in expected)
    what = " or ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
    told = f"{found} where {what} was expected" if shown else f"{found} is not expected here"
    if (other := _LEFT_OUT.search(_QUOTED.sub(" ", text))) is not None:
        told += f"; {other[0].upper()} is no part of this Cypher: ask in SPARQL (`orion-recall graph sparql`)"
    return GraphQueryError(told, text=text, line=line, column=column)
