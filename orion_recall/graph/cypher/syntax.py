"""The subset of Cypher that is read (https://opencypher.org): its syntax tree, and the parser.

MATCH, WHERE, RETURN; the grammar is in `cypher.lark`. Anything else is a syntax error with its place and the tokens
expected there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.exceptions import VisitError
from lark.visitors import v_args  # pyright: ignore[reportUnknownVariableType]

from orion_recall.errors import GraphQueryError

MOST_CHARACTERS = 8_000
MOST_HOPS = 5
DEFAULT_LIMIT, MOST_LIMIT, MOST_SKIP = 100, 10_000, 100_000

Value = str | float | bool
Direction = Literal["right", "left", "either"]
Operator = Literal["=", "<>", "<", "<=", ">", ">=", "CONTAINS", "STARTS WITH", "ENDS WITH", "SIMILAR", "DURING"]


@dataclass(frozen=True, slots=True)
class At:
    """A position in the query's text, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Word:
    """A name as it was written, with its position; `quoted`: in backquotes."""

    text: str
    at: At
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`variable.property operator value`."""

    variable: str
    property: str
    operator: Operator
    value: Value
    at: At


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part must hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One part must hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """The part must not hold."""

    part: Condition


Condition = Comparison | AllOf | AnyOf | Negated


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`(variable:label)`; an unnamed node gets a variable that begins with #."""

    variable: str
    label: Word | None
    at: At


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """`-[variable:types*low..high]->`. `named` when the variable was written."""

    variable: str
    named: bool
    types: tuple[Word, ...]
    low: int
    high: int
    direction: Direction
    at: At


@dataclass(frozen=True, slots=True)
class Chain:
    """Nodes with a relation between each two neighbours."""

    nodes: tuple[Node, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An item of RETURN or ORDER BY: a variable, a property, or a count (of rows where `variable` is empty)."""

    kind: Literal["variable", "property", "count"]
    variable: str = ""
    property: str = ""
    distinct: bool = False
    name: str
    at: At


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A whole query. `conditions` must all hold; property maps of nodes and relations are among them."""

    chains: tuple[Chain, ...]
    conditions: tuple[Condition, ...]
    distinct: bool
    items: tuple[Item, ...]
    order: tuple[tuple[Item, bool], ...]
    skip: int
    limit: int
    text: str


def comparisons(condition: Condition) -> Iterator[Comparison]:
    """Every comparison in a condition."""
    if isinstance(condition, Comparison):
        yield condition
    elif isinstance(condition, Negated):
        yield from comparisons(condition.part)
    else:
        for part in condition.parts:
            yield from comparisons(part)


def _at(token: Token) -> At:
    return At(token.line or 1, token.column or 1)


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


@v_args(inline=True)
class TreeBuilder(Transformer[Token, Any]):
    """A lark transformer: a method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._made_up = 0
        self._maps: list[Comparison] = []

    def _wrong(self, message: str, at: At) -> GraphQueryError:
        return GraphQueryError(message, text=self._text, line=at.line, column=at.column)

    def _unnamed(self) -> str:
        self._made_up += 1
        return f"#{self._made_up}"

    # -- leaves

    def literal(self, value: Any) -> Any:
        if not isinstance(value, Token):
            return value
        if value.type == "STRING":
            return self._string(value)
        return value.upper() == "TRUE" if value.type in ("TRUE", "FALSE") else float(value)

    def negative(self, number: Token) -> float:
        return -float(number)

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

    def label(self, name: Token) -> Word:
        return Word(_bare(name), _at(name), name.type == "QUOTED")

    def types(self, *names: Token) -> tuple[Word, ...]:
        return tuple(Word(_bare(name), _at(name)) for name in names)

    def exactly(self, count: Token | None) -> tuple[int | None, int | None, At | None]:
        return (None, None, None) if count is None else (int(count), int(count), _at(count))

    def between(self, low: Token | None, high: Token | None) -> tuple[int | None, int | None, At | None]:
        place = low if low is not None else high
        return (
            1 if low is None else int(low),
            None if high is None else int(high),
            None if place is None else _at(place),
        )

    def property(self, name: Token, value: Value) -> tuple[Token, Value]:
        return name, value

    def properties(self, *pairs: tuple[Token, Value] | None) -> list[tuple[Token, Value]]:
        return [pair for pair in pairs if pair is not None]

    # -- patterns

    @v_args(inline=False, meta=True)
    def node(self, meta: Any, parts: list[Any]) -> Node:
        names = [part for part in parts if isinstance(part, Token)]
        labels = [part for part in parts if isinstance(part, Word)]
        variable = str(names[0]) if names else self._unnamed()
        self._take_map(variable, parts)
        return Node(variable=variable, label=labels[0] if labels else None, at=At(meta.line, meta.column))

    def _take_map(self, variable: str, parts: list[Any]) -> None:
        for part in parts:
            if isinstance(part, list):
                for name, value in cast("list[tuple[Token, Value]]", part):
                    self._maps.append(
                        Comparison(variable=variable, property=str(name), operator="=", value=value, at=_at(name))
                    )

    def body(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def _relation(self, direction: Direction, parts: tuple[Any, ...], at: At) -> Relation:
        names = [part for part in parts if isinstance(part, Token)]
        low: int | None = 1
        high: int | None = 1
        types: tuple[Word, ...] = ()
        for part in parts:
            if isinstance(part, tuple) and part and isinstance(part[0], Word):
                types = cast("tuple[Word, ...]", part)
            elif isinstance(part, tuple):
                low, high, place = cast("tuple[int | None, int | None, At | None]", part)
                at = place or at
        if low is None or high is None:
            raise self._wrong(f"say how many hops at most, up to {MOST_HOPS}: *1..{MOST_HOPS}", at)
        if not 1 <= low <= high <= MOST_HOPS:
            raise self._wrong(f"{low}..{high} hops: from 1 to {MOST_HOPS}, the smaller first", at)
        variable = str(names[0]) if names else self._unnamed()
        self._take_map(variable, list(parts))
        return Relation(
            variable=variable, named=bool(names), types=types, low=low, high=high, direction=direction, at=at
        )

    @v_args(inline=False, meta=True)
    def right(self, meta: Any, parts: list[Any]) -> Relation:
        return self._relation("right", parts[0], At(meta.line, meta.column))

    @v_args(inline=False, meta=True)
    def left(self, meta: Any, parts: list[Any]) -> Relation:
        return self._relation("left", parts[0], At(meta.line, meta.column))

    @v_args(inline=False, meta=True)
    def either(self, meta: Any, parts: list[Any]) -> Relation:
        return self._relation("either", parts[0], At(meta.line, meta.column))

    @v_args(inline=False, meta=True)
    def bare_right(self, meta: Any, parts: list[Any]) -> Relation:
        return self._relation("right", (), At(meta.line, meta.column))

    @v_args(inline=False, meta=True)
    def bare_left(self, meta: Any, parts: list[Any]) -> Relation:
        return self._relation("left", (), At(meta.line, meta.column))

    @v_args(inline=False, meta=True)
    def bare_either(self, meta: Any, parts: list[Any]) -> Relation:
        return self._relation("either", (), At(meta.line, meta.column))

    def pattern(self, *parts: Node | Relation) -> Chain:
        return Chain(
            tuple(part for part in parts if isinstance(part, Node)),
            tuple(part for part in parts if isinstance(part, Relation)),
        )

    # -- conditions

    def operator(self, *words: Token) -> Operator:
        return cast("Operator", " ".join(word.upper() for word in words))

    def comparison(self, item: Item, operator: Operator, value: Value) -> Comparison:
        return Comparison(
            variable=item.variable, property=item.property, operator=operator, value=value, at=item.at
        )

    def all_of(self, *parts: Condition) -> Condition:
        return parts[0] if len(parts) == 1 else AllOf(parts)

    def any_of(self, *parts: Condition) -> Condition:
        return parts[0] if len(parts) == 1 else AnyOf(parts)

    def negated(self, part: Condition) -> Condition:
        return Negated(part)

    def where(self, condition: Condition) -> Condition:
        return condition

    # -- what is returned

    def reference(self, variable: Token, name: Token) -> Item:
        shown = f"{variable}.{name}"
        return Item(kind="property", variable=str(variable), property=str(name), name=shown, at=_at(variable))

    def variable(self, name: Token) -> Item:
        return Item(kind="variable", variable=str(name), name=str(name), at=_at(name))

    @v_args(inline=False, meta=True)
    def count_rows(self, meta: Any, parts: list[Any]) -> Item:
        return Item(kind="count", name="count(*)", at=At(meta.line, meta.column))

    def count_variable(self, *parts: Token) -> Item:
        distinct, name = len(parts) == 2, parts[-1]
        shown = f"count({'distinct ' if distinct else ''}{name})"
        return Item(kind="count", variable=str(name), distinct=distinct, name=shown, at=_at(name))

    def item(self, value: Item, alias: Token | None = None) -> tuple[Item, str]:
        return value, value.name if alias is None else str(alias)

    def sort(self, item: Item, way: Token | None = None) -> tuple[Item, bool]:
        return item, way is not None

    def order(self, *sorts: tuple[Item, bool]) -> tuple[str, Any]:
        return "order", sorts

    def skip(self, number: Token) -> tuple[str, Any]:
        if int(number) > MOST_SKIP:
            raise self._wrong(f"SKIP {number}: {MOST_SKIP} is the most", _at(number))
        return "skip", int(number)

    def limit(self, number: Token) -> tuple[str, Any]:
        if int(number) > MOST_LIMIT:
            raise self._wrong(f"LIMIT {number}: {MOST_LIMIT} is the most", _at(number))
        return "limit", int(number)

    def query(self, *parts: Any) -> Query:
        chains = tuple(part for part in parts if isinstance(part, Chain))
        where = [part for part in parts if isinstance(part, Comparison | AllOf | AnyOf | Negated)]
        ends: dict[str, Any] = {}
        items: list[Item] = []
        for part in parts:
            if isinstance(part, tuple):
                first, second = cast("tuple[Any, Any]", part)
                if isinstance(first, Item):
                    items.append(_renamed(first, second))
                else:
                    ends[first] = second
        names = [item.name for item in items]
        for place, item in enumerate(items):
            if item.name in names[:place]:
                raise self._wrong(f"{item.name} is returned twice: name one of them with AS", item.at)
        conjuncts: list[Condition] = list(self._maps)
        for condition in where:
            conjuncts.extend(condition.parts if isinstance(condition, AllOf) else (condition,))
        return Query(
            chains=chains,
            conditions=tuple(conjuncts),
            distinct=any(isinstance(part, Token) and part.type == "DISTINCT" for part in parts),
            items=tuple(items),
            order=ends.get("order", ()),
            skip=ends.get("skip", 0),
            limit=ends.get("limit", DEFAULT_LIMIT),
            text=self._text,
        )


def _bare(name: Token) -> str:
    return name[1:-1] if name.type == "QUOTED" else str(name)


def _renamed(item: Item, name: str) -> Item:
    return Item(
        kind=item.kind,
        variable=item.variable,
        property=item.property,
        distinct=item.distinct,
        name=name,
        at=item.at,
    )


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
