"""The RDF vocabulary of the memory graph, and memories as triples in it."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from urllib.parse import quote, unquote

from rdflib import Literal, Namespace, URIRef
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.errors import SourceError
from orion_recall.text.normal import memory_key, number_of, whole_words
from orion_recall.values import Memory, Neighbour, Statement, TimeRange, ToldTime

Row = Mapping[str, str]
"""One row of a SELECT: values as text by variable name; unbound variables are absent."""
UNEXPECTED_ROWS = "the graph's answer does not fit the query: a column is missing, or its value has the wrong type"


def sparql_term(term: URIRef | Literal) -> str:
    """The term through rdflib's own n3(), on one line.

    rdflib writes a literal with a line break in triple quotes, and leaves a quotation mark after a backslash
    unescaped: it ends the literal, and what follows would be read as SPARQL. So each line is written on its own.
    """
    if isinstance(term, Literal) and term.datatype is None and "\n" in term:
        return '"' + "\\n".join(Literal(line).n3()[1:-1] for line in term.split("\n")) + '"'
    return term.n3()


@contextlib.contextmanager
def reading_rows() -> Generator[None]:
    """A LookupError or ValueError in the block, which reads rows of an answer, becomes a SourceError."""
    try:
        yield
    except (LookupError, ValueError) as error:
        raise SourceError(UNEXPECTED_ROWS) from error


def finite(text: str) -> float:
    """The number in a row; ValueError for one with which nothing can be computed."""
    if not math.isfinite(number := float(text)):
        raise ValueError("not finite")
    return number


_BRACKETED = re.compile(r"\[\[([^\[\]\n]{1,200})\]\]")


def _referred_ids(memory: Memory) -> Iterable[str]:
    """The ids that the memory refers to, in order, without its own; 16 at most."""
    found: list[object] = []
    for name in ("in_reply_to", "refers_to"):
        given = memory.metadata.get(name)
        found += given if isinstance(given, list | tuple) else (given,)
    found += (match[1].strip() for match in _BRACKETED.finditer(memory.text))
    return islice(dict.fromkeys(one for one in found if isinstance(one, str) and one and one != memory.id), 16)


ORION = Namespace("urn:orion:vocabulary:")
PROJECTION = URIRef("urn:orion:projection")
TENANTS = "urn:orion:tenant:"
PREFIXES = "".join(
    f"PREFIX {name}: <{space}> " for name, space in (("o", ORION), ("skos", SKOS), ("prov", PROV), ("rdf", RDF))
)
_MEMORY = "urn:orion:memory:"
_RELATION = "urn:orion:relation:"

# Raised whenever the same memories would give other triples: a graph of another format is built anew.
FORMAT = 4

# Attribute look-ups on a namespace are slow, and a memory has dozens of triples.
_TYPE, _SUBJECT, _PREDICATE, _OBJECT, _STATEMENT = RDF.type, RDF.subject, RDF.predicate, RDF.object, RDF.Statement
_MEMORY_TYPE, _SPOKENBY, _MENTIONS, _NAMED = ORION.Memory, ORION.spokenBy, ORION.mentions, ORION.named
_REFERSTO, _ABOUT, _TELLS, _TAG, _NEXT = ORION.refersTo, ORION.about, ORION.tells, ORION.tag, ORION.next
# A memory's own properties by their fields: with them the graph can replace the index while that is unavailable.
_OWN = {
    "id": ORION.id, "version": ORION.version, "text": ORION.content, "title": ORION.title, "kind": ORION.kind,
    "speaker": ORION.speaker, "session_id": ORION.session, "user_id": ORION.user, "agent_id": ORION.agent,
    "run_id": ORION.run, "uri": ORION.uri,
}  # fmt: skip
_OCCURRED = ORION.occurred
_LONG = frozenset(("id", "text", "title", "uri"))

Triple = tuple[URIRef, URIRef, URIRef | Literal]


@dataclass(frozen=True, slots=True)
class Edge:
    """The two entities of an edge and its relation."""

    subject: URIRef
    relation: URIRef
    object: URIRef

    @property
    def iri(self) -> URIRef:
        """The edge's own node, the same in every copy."""
        return URIRef(f"urn:orion:edge:{number_of(f'{self.subject} {self.relation}', str(self.object))}")


def tenant_graph(tenant: str) -> URIRef:
    """The name of the tenant's own graph."""
    return URIRef(f"{TENANTS}{quote(tenant, safe='')}")


@lru_cache(maxsize=4096, typed=True)
def literal(value: str | float) -> Literal:
    """A value that many memories have: to make one takes longer than to write it."""
    return Literal(value)


def _folded(label: str) -> str:
    return quote("_".join(whole_words(label)) or label.casefold(), safe="")


@lru_cache(maxsize=4096)
def entity_iri(label: str) -> URIRef:
    """An entity by its name, folded: case and punctuation do not make another entity."""
    return URIRef(f"urn:orion:entity:{_folded(label)}")


@lru_cache(maxsize=4096)
def relation_iri(label: str) -> URIRef:
    return URIRef(f"{_RELATION}{_folded(label)}")


def relation_label(relation: URIRef) -> str:
    """A relation's name from its IRI: one for all spellings that fold to the same."""
    return unquote(relation.removeprefix(_RELATION)).replace("_", " ")


def memory_iri(key: int) -> URIRef:
    return URIRef(f"{_MEMORY}{key}")


def key_of(iri: str) -> int:
    return int(iri.removeprefix(_MEMORY))


def edge_of(statement: Statement) -> Edge:
    return Edge(entity_iri(statement.subject), relation_iri(statement.relation), entity_iri(statement.object))


def best_spelling(spellings: Iterable[str]) -> str:
    """The spelling that is shown, whatever the order they come in: `Fjord Labs` before `FJORD LABS`."""
    return min(spellings, key=lambda one: (one.islower(), one.isupper(), len(one), one))


def memory_triples(
    memory: Memory, voice: str | None = None, following: Neighbour | None = None
) -> Iterator[Triple]:
    """The triples of its own node; `voice` is the speaker's name after merges, `following` the next turn."""
    voice = voice or memory.speaker
    iri = memory_iri(memory_key(memory.tenant, memory.id))
    yield iri, _TYPE, _MEMORY_TYPE
    for name, own in _OWN.items():
        if (value := getattr(memory, name)) is not None:
            yield iri, own, Literal(value) if name in _LONG else literal(value)
    if memory.ts is not None:
        yield iri, _OCCURRED, literal(float(memory.ts))
    for told in dict.fromkeys(window(one.since, one.until) for one in memory.times):
        if told is not None:
            yield iri, _TELLS, literal(told)
    for tag in dict.fromkeys(memory.tags):
        yield iri, _TAG, literal(tag)
    speaker = entity_iri(voice) if voice else None
    if speaker is not None:
        yield iri, _SPOKENBY, speaker
    for entity in dict.fromkeys(map(entity_iri, memory.entities)):
        if entity != speaker:
            yield iri, _MENTIONS, entity
    for name in sorted(all_entities(memory, voice)):
        yield iri, _NAMED, literal(name)
    if following is not None:
        yield iri, _NEXT, memory_iri(memory_key(memory.tenant, following.id))
    for reference in _referred_ids(memory):
        yield iri, _REFERSTO, memory_iri(memory_key(memory.tenant, reference))


def entity_triples(entity: URIRef, spellings: Iterable[str], merged: Iterable[str] = ()) -> Iterator[Triple]:
    """The triples of an entity: its spellings, at least one, and the names that were merged into it."""
    kept = frozenset(spellings)
    shown = best_spelling(kept)
    yield entity, _TYPE, SKOS.Concept
    yield entity, SKOS.prefLabel, Literal(shown)
    for other in sorted(kept - {shown}):
        yield entity, SKOS.altLabel, Literal(other)
    for other in sorted(merged):
        yield entity, SKOS.hiddenLabel, Literal(other)


@lru_cache(maxsize=4096)
def relation_triples(relation: URIRef) -> Sequence[Triple]:
    return (relation, _TYPE, RDF.Property), (relation, SKOS.prefLabel, Literal(relation_label(relation)))


def edge_triples(edge: Edge) -> Iterator[Triple]:
    """The triples of an edge and its relation, without those of its evidence (see `projection`)."""
    iri = edge.iri
    yield from relation_triples(edge.relation)
    yield iri, _TYPE, _STATEMENT
    yield iri, _SUBJECT, edge.subject
    yield iri, _PREDICATE, edge.relation
    yield iri, _OBJECT, edge.object
    for end in dict.fromkeys((edge.subject, edge.object)):
        yield iri, _ABOUT, end


def window(since: float, until: float) -> str | None:
    """A told time as an ISO 8601 interval in UTC, to the second; None beyond the calendar."""
    try:
        ends = [datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds") for moment in (since, until)]
    except (OverflowError, ValueError, OSError):
        return None
    return "/".join(one.replace("+00:00", "Z") for one in ends)


def all_entities(memory: Memory, voice: str | None = None) -> frozenset[str]:
    """Every entity name in the memory: its entities, the ends of its statements, and its speaker (or `voice`)."""
    ends = (end for statement in memory.statements for end in (statement.subject, statement.object))
    return frozenset(name for name in (*memory.entities, *ends, voice or memory.speaker) if name)


_FIRST, _LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"


def overlap_filter(variable: str, ranges: Sequence[TimeRange]) -> str:
    """A SPARQL expression that holds where the window overlaps one of the half-open intervals (epoch seconds)."""
    tests: list[str] = []
    for since, until in ranges:
        start, end = (at if at is None else window(at, at) for at in (since, until))
        start, end = (start or _FIRST).partition("/")[0], (end or _LAST).partition("/")[0]
        tests.append(f'(STRBEFORE({variable}, "/") < "{end}" && STRAFTER({variable}, "/") > "{start}")')
    return f"({' || '.join(tests) or 'false'})"


def read_window(window: str) -> ToldTime:
    """The window in epoch seconds; ValueError for text of another form."""
    start, _, end = window.partition("/")
    return ToldTime(datetime.fromisoformat(start).timestamp(), datetime.fromisoformat(end).timestamp())


def shown(windows: Iterable[str]) -> str:
    """Windows in words, in order: a day as its date, a longer time from its first to its last day."""
    found: dict[str, None] = {}
    for start, _, end in (one.partition("/") for one in sorted(windows)):
        first, last = start[:10], end[:10]
        if start.endswith("T00:00:00Z") and end.endswith("T00:00:00Z"):
            last = datetime.fromtimestamp(datetime.fromisoformat(end).timestamp() - 1, UTC).date().isoformat()
            found[first if first == last else f"{first} to {last}"] = None
        else:
            found[f"{first} {start[11:16]}" if first == last else f"{start[:16]} to {end[:16]}"] = None
    return ", ".join(found)
