"""Opens external stores by their mappings; each becomes a further store of a source."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from pydantic import SecretStr

from orion_recall.errors import SettingsError
from orion_recall.external.mappings import Mappings, QdrantMapping, SparqlMapping, TableMapping
from orion_recall.external.qdrant import MappedCollection, MappedLexicalSource, MappedVectorSource
from orion_recall.external.sparql import MappedGraphSource
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.interfaces import Source
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.settings import Settings
from orion_recall.sources.timeline import OWN_VIEW, TimelineSource, TimelineTable
from orion_recall.values import SourceName

Part = tuple[SourceName, str, Source]


async def open_mapped(
    mappings: Mappings,
    settings: Settings,
    embedder: Embedder,
    sparse: SparseEncoder,
    stack: contextlib.AsyncExitStack,
) -> Sequence[Part]:
    """(source, store, part) for every part that a mapped store has in a retrieval source; closed with the stack.

    Nothing is asked of the stores yet: one that is away costs its own hits. SettingsError for a secret that is not
    set, for a table without a Postgres, and for a store that has the name of the timeline's own table.
    """
    table = settings.timeline_table
    if table != OWN_VIEW and table in mappings.names:
        raise SettingsError(
            f"ORION_TIMELINE_TABLE and a store of ORION_MAPPINGS have the name {table!r}: what is cited under it "
            "must be one store"
        )
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
    return MappedCollection(mapping, QdrantServer.at(mapping.url, api_key=mapping.secret))


def graph_client(mapping: SparqlMapping) -> SparqlClient:
    token = mapping.secret
    return SparqlClient(SparqlServer(url=mapping.url, token=SecretStr(token) if token else None))


def timeline_of(mapping: TableMapping, settings: Settings) -> TimelineSource:
    dsn = mapping.secret or settings.dsn
    if dsn is None:
        raise SettingsError(f"the store {mapping.name!r} needs a Postgres: set dsn_env, or ORION_POSTGRES_DSN")
    try:
        table = TimelineTable.mapped(mapping.table, mapping.columns.named, mapping.tenant, cited_as=mapping.name)
    except SettingsError as error:
        raise SettingsError(f"the store {mapping.name!r}: {error}") from error
    return TimelineSource(dsn, table, connections=2)
