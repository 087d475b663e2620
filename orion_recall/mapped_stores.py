"""The stores of others, opened as their mappings say: a part of each arm that they can serve."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from pydantic import SecretStr

from orion_recall.errors import SettingsError
from orion_recall.mappings import Mappings, QdrantMapping, SparqlMapping, TableMapping
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.settings import Settings
from orion_recall.sources.mapped_qdrant import MappedCollection, MappedLexicalSource, MappedVectorSource
from orion_recall.sources.mapped_sparql import MappedGraphSource
from orion_recall.sources.qdrant_server import QdrantServer
from orion_recall.sources.source import Source
from orion_recall.sources.sparql_client import SparqlClient, SparqlServer
from orion_recall.sources.timeline import ROLES, TimelineSource, TimelineTable
from orion_recall.values import SourceName

Part = tuple[SourceName, str, Source]


async def open_mapped(
    mappings: Mappings,
    settings: Settings,
    embedder: Embedder,
    sparse: SparseEncoder,
    stack: contextlib.AsyncExitStack,
) -> Sequence[Part]:
    """(arm, store, source) for every part that a mapped store has in an arm; closed when the stack ends.

    Nothing is asked of the stores yet: one that is away costs its own hits. SettingsError for a secret that is not
    set, and for a table without a Postgres.
    """
    parts: list[Part] = []
    for mapping in mappings.qdrant:
        collection = collection_of(mapping)
        stack.push_async_callback(collection.close)
        parts.append(("vector", mapping.name, MappedVectorSource(collection, embedder)))
        if mapping.sparse is not None:
            parts.append(("lexical", mapping.name, MappedLexicalSource(collection, sparse)))
    for mapping in mappings.sparql:
        graph = graph_client(mapping)
        stack.push_async_callback(graph.close)
        parts.append(("rdf", mapping.name, MappedGraphSource(graph, mapping)))
    for mapping in mappings.tables:
        timeline = timeline_of(mapping, settings)
        stack.push_async_callback(timeline.close)
        parts.append(("sql_timeline", mapping.name, timeline))
    return parts


def collection_of(mapping: QdrantMapping) -> MappedCollection:
    """The collection with a client of its own."""
    return MappedCollection(mapping, QdrantServer.at(mapping.url, api_key=mapping.api_key))


def graph_client(mapping: SparqlMapping) -> SparqlClient:
    """The endpoint with connections of its own."""
    token = mapping.token
    return SparqlClient(SparqlServer(url=mapping.url, token=SecretStr(token) if token else None))


def timeline_of(mapping: TableMapping, settings: Settings) -> TimelineSource:
    """The table with connections of its own."""
    dsn = mapping.dsn or settings.dsn
    if dsn is None:
        raise SettingsError(f"the store {mapping.name!r} needs a Postgres: set dsn_env, or ORION_POSTGRES_DSN")
    unknown = [role for role in mapping.columns if role not in ROLES]
    if unknown:
        raise SettingsError(
            f"the store {mapping.name!r}: {unknown[0]!r} is not a role; roles are {', '.join(ROLES)}"
        )
    # A table of others has no column that nobody has named.
    columns = {role: column for role in ROLES if (column := mapping.columns.get(role))}
    try:
        table = TimelineTable(name=mapping.table, columns=columns, tenant=mapping.tenant, cited_as=mapping.name)
    except SettingsError as error:
        raise SettingsError(f"the store {mapping.name!r}: {error}") from error
    return TimelineSource(dsn, table, connections=2)
