"""Checks that a user's SPARQL only reads: one query, no update, no SERVICE call to another server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, cast

from pyparsing import ParseBaseException
from rdflib.plugins.sparql.parser import parseQuery
from rdflib.plugins.sparql.parserutils import CompValue

from orion_recall.errors import GraphQueryError

Form = Literal["SELECT", "ASK", "CONSTRUCT", "DESCRIBE"]
MOST_CHARACTERS = 50_000
_FORMS: dict[str, Form] = {
    "SelectQuery": "SELECT", "AskQuery": "ASK", "ConstructQuery": "CONSTRUCT", "DescribeQuery": "DESCRIBE",
}  # fmt: skip
_UPDATE = re.compile(r"\b(insert|delete|load|clear|create|drop|copy|move|add|with)\b", re.IGNORECASE)
# The engine's parser may differ from this one: whatever looks like a SERVICE call counts as one.
_SPACE = r"(?:\s|#[^\n]*\n)*"
_SERVICE = re.compile(rf"(?<![?$:\w])service{_SPACE}(?:silent{_SPACE})?(?:<|\?|\$|[\w.-]*:)", re.IGNORECASE)


def reading_form(query: str, *, confined: bool) -> Form:
    """The form of a reading query; GraphQueryError for an update, for SERVICE, and for what does not parse.

    `confined`: FROM, which would choose another data set, is an error, too.
    """
    if len(query) > MOST_CHARACTERS:
        raise GraphQueryError(f"the query has {len(query)} characters: {MOST_CHARACTERS} are the most")
    try:
        query.encode()
        parsed = parseQuery(query)
    except UnicodeEncodeError as error:
        raise GraphQueryError("the query holds half a character") from error
    except RecursionError as error:
        raise GraphQueryError("the query is nested too deeply") from error
    except ParseBaseException as error:
        first = re.sub(r"(?i)(\s|#[^\n]*\n|(prefix\s+\S+|base)\s+<[^>]*>)*", "", query, count=1)
        if _UPDATE.match(first):
            raise GraphQueryError(
                "this is an update: only SELECT, ASK, CONSTRUCT and DESCRIBE are allowed"
            ) from None
        raise GraphQueryError(
            "this is no SPARQL query from here on", text=query, line=error.lineno, column=error.column
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError, NotImplementedError) as error:
        raise GraphQueryError(f"the query cannot be read: {type(error).__name__}") from error
    found = _names(parsed)
    forms: list[Form] = [_FORMS[name] for name in found if name in _FORMS]
    if not forms:
        raise GraphQueryError("only SELECT, ASK, CONSTRUCT and DESCRIBE are allowed")
    if "ServiceGraphPattern" in found or _SERVICE.search(_unescaped(query)):
        raise GraphQueryError("SERVICE is not allowed: no other server is queried")
    if confined and "DatasetClause" in found:
        raise GraphQueryError("FROM is not allowed: the query runs on one tenant's graph (--tenant, --all-tenants)")
    return forms[0]


def _names(parsed: Any) -> list[str]:
    """The names of everything in the parse tree, outermost first."""
    return [name for part in parsed for name in _walk(part)]


def _walk(part: Any) -> Iterator[str]:
    waiting: list[Any] = [part]
    while waiting:
        one = waiting.pop()
        if isinstance(one, CompValue):
            yield one.name
            waiting.extend(cast("dict[str, Any]", one).values())
        elif not isinstance(one, str) and hasattr(one, "__iter__"):
            waiting.extend(one)


def _unescaped(query: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = int(match[0][2:], 16)
        return chr(code) if code <= 0x10FFFF else match[0]

    return re.sub(r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}", character, query)
