"""The words of the memory graph, and memories as triples.

Every tenant has a named graph of its own, so that no query can see another's. In it:

    memory  --mentions-->  entity          memory  --spokenBy-->  entity
    memory  --next-->      memory          (turns of one session, in time)
    statement --about--> entity (subject and object), --subject / relation / object--, --text-->, --from--> memory

A memory's IRI ends in the key that the index uses too.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from rdflib import Literal, Namespace, URIRef
from rdflib.namespace import RDF, RDFS, SKOS

from orion_recall.text import memory_key, number_of, words
from orion_recall.values import Change, Memory, Statement

ORION = Namespace("urn:orion:vocabulary:")
PROJECTION = URIRef("urn:orion:projection")
_MEMORY = "urn:orion:memory:"

Triple = tuple[URIRef, URIRef, URIRef | Literal]
TriplePattern = tuple[URIRef | None, URIRef, URIRef | None]


def tenant_graph(tenant: str) -> URIRef:
    """The name of the tenant's own graph."""
    return URIRef(f"urn:orion:tenant:{quote(tenant, safe='')}")


def entity_iri(label: str) -> URIRef:
    """An entity by its name, folded: case and punctuation do not make another entity."""
    return URIRef(f"urn:orion:entity:{quote('_'.join(words(label)) or label.casefold(), safe='')}")


def memory_iri(key: int) -> URIRef:
    """A memory by its key."""
    return URIRef(f"{_MEMORY}{key}")


def key_of(iri: str) -> int:
    """The key in a memory's IRI."""
    return int(iri.removeprefix(_MEMORY))


def sentence(statement: Statement) -> str:
    """A statement as people say it."""
    return f"{statement.subject} {statement.relation} {statement.object}"


def triples(change: Change) -> Iterator[Triple]:
    """Everything the graph says of one memory."""
    memory = change.memory
    iri = memory_iri(memory_key(memory.tenant, memory.id))
    yield iri, RDF.type, ORION.Memory
    for name, value in _told(memory):
        if value is not None:
            yield iri, ORION[name], Literal(value)
    speaker = entity_iri(change.called(memory.speaker)) if memory.speaker else None
    if memory.speaker and speaker is not None:
        yield iri, ORION.spokenBy, speaker
        yield speaker, RDFS.label, Literal(change.called(memory.speaker))
    for entity in memory.entities:
        entity_node = entity_iri(entity)
        if entity_node != speaker:
            yield iri, ORION.mentions, entity_node
            yield entity_node, RDFS.label, Literal(entity)
    for statement in memory.statements:
        yield from _statement_triples(iri, statement)
    yield from _turn_triples(change, iri)
    yield from alternative_labels(change)


def alternative_labels(change: Change) -> Iterator[Triple]:
    """The names that were merged into the memory's entities; there are no others while the change is the latest."""
    for one in change.merged:
        for alias in one.aliases:
            yield entity_iri(one.label), SKOS.altLabel, Literal(alias)


def outdated(change: Change) -> Iterator[TriplePattern]:
    """The edges to and from a memory and the turns beside it that may have been cut by turns told late."""
    tenant = change.memory.tenant
    iri = memory_iri(memory_key(tenant, change.memory.id))
    if change.previous is not None:
        yield None, ORION.next, iri
        yield memory_iri(memory_key(tenant, change.previous.id)), ORION.next, None
    if change.following is not None:
        yield iri, ORION.next, None
        yield None, ORION.next, memory_iri(memory_key(tenant, change.following.id))


def _told(memory: Memory) -> Iterator[tuple[str, str | float | None]]:
    """What the memory itself says, so that the graph can stand in for the index when that is away."""
    yield "id", memory.id
    yield "content", memory.text
    yield "title", memory.title
    yield "kind", memory.kind
    yield "speaker", memory.speaker
    yield "session", memory.session_id
    yield "user", memory.user_id
    yield "uri", memory.uri
    yield "occurred", memory.occurred_at if memory.occurred_at is not None else memory.mentioned_at
    for tag in memory.tags:
        yield "tag", tag


def _turn_triples(change: Change, iri: URIRef) -> Iterator[Triple]:
    tenant = change.memory.tenant
    if change.previous is not None:
        yield memory_iri(memory_key(tenant, change.previous.id)), ORION.next, iri
    if change.following is not None:
        yield iri, ORION.next, memory_iri(memory_key(tenant, change.following.id))


def _statement_triples(memory: URIRef, statement: Statement) -> Iterator[Triple]:
    text = sentence(statement)
    node = URIRef(f"urn:orion:statement:{number_of(str(memory), text)}")
    subject, obj = entity_iri(statement.subject), entity_iri(statement.object)
    yield node, RDF.type, ORION.Statement
    yield node, ORION.subject, subject
    yield node, ORION.relation, Literal(statement.relation)
    yield node, ORION.object, obj
    yield node, ORION.text, Literal(text)
    yield node, ORION["from"], memory
    for entity, label in ((subject, statement.subject), (obj, statement.object)):
        yield node, ORION.about, entity
        yield entity, RDFS.label, Literal(label)


def all_entities(memory: Memory) -> frozenset[str]:
    """Every name the memory gives, its speaker's and its statements' too."""
    ends = (end for statement in memory.statements for end in (statement.subject, statement.object))
    return frozenset((*memory.entities, *ends, *((memory.speaker,) if memory.speaker else ())))
