"""A small part of Cypher (https://opencypher.org): its syntax tree, and the parser.

    MATCH node (relation node)* [WHERE comparison (AND comparison)*] RETURN item (, item)* [LIMIT n] [;]
    node      ([name][:Label][{property: value, …}])
    relation  -[[name][:TYPE|`other type`][*min..max][{property: value, …}]]->, <-[…]-, -[…]- or --
    comparison  name.property = value, or name.property SIMILAR 'text'

Keywords are in any case. Anything else is an error with its place and what was expected there; what this part
leaves out is asked for in SPARQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orion_recall.errors import GraphQueryError

MOST_CHARACTERS = 8_000
MOST_HOPS = 5
DEFAULT_LIMIT, MOST_LIMIT = 100, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`variable.property operator value`, from WHERE or from the properties of a node or relation."""

    variable: str
    property: str
    operator: Literal["=", "SIMILAR"]
    value: str | float
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`(variable:label)`; an unnamed node gets a variable that begins with #."""

    variable: str
    label: str | None
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """`-[variable:types*low..high]->`; an unnamed one gets a variable that begins with #."""

    variable: str
    types: tuple[str, ...]
    low: int
    high: int
    direction: Literal["right", "left", "either"]
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An item of RETURN, `name` as it was written: a property, or a whole variable where `property` is empty."""

    name: str
    variable: str
    property: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A whole query: a relation between each two neighbouring nodes; all `comparisons` must hold.

    `at` of each part is its offset in `text`.
    """

    nodes: tuple[Node, ...]
    relations: tuple[Relation, ...]
    comparisons: tuple[Comparison, ...]
    items: tuple[Item, ...]
    limit: int
    text: str

    def error(self, message: str, at: int) -> GraphQueryError:
        return _error(message, self.text, at)


def parse(text: str) -> Query:
    """The query as a tree; GraphQueryError with line, column and what was expected."""
    if len(text) > MOST_CHARACTERS:
        raise GraphQueryError(f"the query has {len(text)} characters: {MOST_CHARACTERS} are the most")
    if re.search("[\x00\ud800-\udfff]", text):
        raise GraphQueryError("the query holds a NUL or half a character")
    return _Parser(text).query()


def _error(message: str, text: str, at: int) -> GraphQueryError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return GraphQueryError(message, text=text, line=line, column=column)


# Of signs only `..` has two characters: `--` may be a relation.
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)|(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<quoted>`[^`\r\n]{1,200}`)
    |(?P<number>[0-9]{1,15}(?:\.[0-9]{1,9})?)|(?P<name>[A-Za-z_][A-Za-z0-9_]{0,63})|(?P<sign>\.\.|.)""",
    re.VERBOSE | re.DOTALL,
)
_NAME, _STRING, _NUMBER, _WHOLE, _QUOTED = "a name", "a text in quotes", "a number", "a whole number", "a `name`"
_NAMES = {"string": _STRING, "quoted": _QUOTED, "number": _NUMBER, "name": _NAME, "sign": ""}
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
_LEFT_OUT = re.compile(
    r"""\b(?:ORDER\s+BY|SKIP|DISTINCT|COUNT|OR|NOT|CONTAINS|(?:STARTS|ENDS)\s+WITH|DURING|AS|OPTIONAL|UNION|CREATE
    |MERGE|DELETE|SET|REMOVE)\b|<>|[<>]=?""",
    re.VERBOSE | re.IGNORECASE,
)
_NO_WORDS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`\r\n]*`|<-|->", re.DOTALL)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    def is_one_of(self, wanted: tuple[str, ...]) -> bool:
        is_whole = self.kind == _NUMBER and self.text.isdigit()
        return self.kind in wanted or (is_whole and _WHOLE in wanted) or (
            self.kind in ("", _NAME) and self.text.upper() in wanted
        )  # fmt: skip


class _Parser:
    """Recursive descent, a method for each rule."""

    def __init__(self, text: str) -> None:
        self._text = text
        found = [match for match in _TOKEN.finditer(text) if match.lastgroup != "space"]
        self._tokens = [_Token(_NAMES[match.lastgroup or ""], match[0], match.start()) for match in found]
        self._place = 0
        self._expected: list[str] = []
        self._comparisons: list[Comparison] = []
        self._unnamed = 0

    def query(self) -> Query:
        self._need("MATCH")
        nodes, relations = [self._node()], list[Relation]()
        while sign := self._take("<", "-"):
            relations.append(self._relation(sign))
            nodes.append(self._node())
        within = list[Comparison]()
        if self._take("WHERE"):
            within = [self._comparison()]
            while self._take("AND"):
                within.append(self._comparison())
        self._need("RETURN")
        items = [self._item()]
        while self._take(","):
            items.append(self._item())
            if items[-1].name in [one.name for one in items[:-1]]:
                raise _error(f"{items[-1].name} is returned twice", self._text, items[-1].at)
        limit = self._limit() if self._take("LIMIT") else DEFAULT_LIMIT
        self._take(";")
        if self._place < len(self._tokens):
            raise self._unexpected()
        return Query(
            nodes=tuple(nodes),
            relations=tuple(relations),
            comparisons=(*self._comparisons, *within),
            items=tuple(items),
            limit=limit,
            text=self._text,
        )

    def _take(self, *wanted: str) -> _Token | None:
        """The next token when it is a wanted one: a kind, a sign, or a keyword in capitals."""
        if self._place < len(self._tokens) and self._tokens[self._place].is_one_of(wanted):
            self._place += 1
            self._expected = []
            return self._tokens[self._place - 1]
        self._expected += wanted
        return None

    def _need(self, *wanted: str) -> _Token:
        if (found := self._take(*wanted)) is None:
            raise self._unexpected()
        return found

    def _node(self) -> Node:
        start = self._need("(")
        name = self._take(_NAME)
        label = self._need(_NAME).text if self._take(":") else None
        variable = self._variable(name)
        self._need(")")
        return Node(variable=variable, label=label, at=start.at)

    def _relation(self, start: _Token) -> Relation:
        if start.text == "<":
            self._need("-")
        name, types, low, high, at = None, list[str](), 1, 1, start.at
        if bracket := self._take("["):
            name = self._take(_NAME)
            if self._take(":"):
                types.append(self._type())
                while self._take("|"):
                    self._take(":")
                    types.append(self._type())
            if star := self._take("*"):
                low, high, at = self._hops(star)
        variable = self._variable(name if bracket else None)
        if bracket:
            self._need("]")
        self._need("-")
        direction = "left" if start.text == "<" else "right" if self._take(">") else "either"
        return Relation(variable=variable, types=tuple(types), low=low, high=high, direction=direction, at=at)

    def _type(self) -> str:
        token = self._need(_NAME, _QUOTED)
        return token.text.strip("`")

    def _hops(self, star: _Token) -> tuple[int, int, int]:
        low = high = self._take(_WHOLE)
        if self._take(".."):
            high = self._take(_WHOLE)
        at = next((token.at for token in (low, high) if token is not None), star.at)
        if high is None:
            raise _error(f"say how many hops at most, up to {MOST_HOPS}: *1..{MOST_HOPS}", self._text, at)
        least, most = int(low.text) if low is not None else 1, int(high.text)
        if not 1 <= least <= most <= MOST_HOPS:
            raise _error(f"{least}..{most} hops: from 1 to {MOST_HOPS}, the smaller first", self._text, at)
        return least, most, at

    def _variable(self, name: _Token | None) -> str:
        """The variable of a node or relation; the properties behind it become comparisons."""
        self._unnamed += 1
        variable = f"#{self._unnamed}" if name is None else name.text
        if self._take("{"):
            self._equal(variable)
            while self._take(","):
                self._equal(variable)
            self._need("}")
        return variable

    def _equal(self, variable: str) -> None:
        name = self._need(_NAME)
        self._need(":")
        self._comparisons.append(
            Comparison(variable=variable, property=name.text, operator="=", value=self._value(), at=name.at)
        )

    def _comparison(self) -> Comparison:
        variable = self._need(_NAME)
        self._need(".")
        name = self._need(_NAME).text
        operator = "=" if self._need("=", "SIMILAR").text == "=" else "SIMILAR"
        return Comparison(
            variable=variable.text, property=name, operator=operator, value=self._value(), at=variable.at
        )

    def _item(self) -> Item:
        variable = self._need(_NAME)
        name = self._need(_NAME).text if self._take(".") else ""
        shown = f"{variable.text}.{name}" if name else variable.text
        return Item(name=shown, variable=variable.text, property=name, at=variable.at)

    def _limit(self) -> int:
        number = self._need(_WHOLE)
        if int(number.text) > MOST_LIMIT:
            raise _error(f"LIMIT {number.text}: {MOST_LIMIT} is the most", self._text, number.at)
        return int(number.text)

    def _value(self) -> str | float:
        if self._take("-"):
            return -float(self._need(_NUMBER).text)
        token = self._need(_NUMBER, _STRING)
        return float(token.text) if token.kind == _NUMBER else self._string(token)

    def _string(self, token: _Token) -> str:
        def plain(match: re.Match[str]) -> str:
            escape = match[1]
            if len(escape) == 5:
                character = chr(int(escape[1:], 16))
                if not ("\ud800" <= character <= "\udfff" or character == "\0"):
                    return character
            elif escape in _ESCAPED:
                return _ESCAPED[escape]
            raise _error(f"there is no escape \\{escape}", self._text, token.at)

        return re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", plain, token.text[1:-1], flags=re.DOTALL)

    def _unexpected(self) -> GraphQueryError:
        """The error at the next token, with all that could have stood there."""
        found, at = "the query ends", len(self._text)
        if self._place < len(self._tokens):
            token = self._tokens[self._place]
            found, at = repr(token.text[:40]), token.at
            if token.text in ("'", '"'):
                return _error("this text has no end", self._text, at)
        wanted = sorted(set(self._expected))
        what = " or ".join([", ".join(wanted[:-1]), wanted[-1]] if wanted[1:] else wanted)
        told = f"{found} where {what} was expected"
        if (other := _LEFT_OUT.search(_NO_WORDS.sub(" ", self._text))) is not None:
            told += f"; {other[0].upper()} is no part of this Cypher: ask in SPARQL (`orion-recall graph sparql`)"
        return _error(told, self._text, at)
