"""The search itself: one HTTP request for each recall, to the index of `OPENSEARCH_URL`."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx

from orion_recall.errors import ScopeNotKept, SettingsError, SourceError, TransientSourceError
from orion_recall.packages import PackageSettings
from orion_recall.sources.hits import cited_id, mapped_key
from orion_recall.text.normal import text_hash
from orion_recall.values import Hit, MemoryView, Scope, SearchRequest, SourceName

URL = "OPENSEARCH_URL"


@asynccontextmanager
async def opened(_: PackageSettings) -> AsyncGenerator[OpenSearchSource]:
    """The source at the address of the environment. SettingsError without one."""
    if not (url := os.environ.get(URL)):
        raise SettingsError(f"set {URL} to the index, as http://host:9200/notes")
    async with httpx.AsyncClient(base_url=url) as client:
        yield OpenSearchSource(client)


class OpenSearchSource:
    """Documents of an index with the fields tenant, text, tags and ts (epoch seconds), by their BM25 scores."""

    name: SourceName = "opensearch"

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """The documents with words of the question, best first. ScopeNotKept for a scope with more than these."""
        scope = request.scope
        if replace(scope, tags=(), since=None, until=None, as_of=None) != Scope(tenant=scope.tenant):
            raise ScopeNotKept("the documents have a tenant, tags and a time alone")
        body = {
            "size": request.limit,
            "query": {
                "bool": {
                    "must": [{"match": {"text": request.question.keyword_text}}],
                    "filter": [*_filters(scope)],
                }
            },
        }
        found = await self._ask("_search", body, request.timeout_s)
        return [_hit(scope.tenant, one) for one in found["hits"]["hits"]]

    async def count(self) -> int:
        """How many documents there are, of all tenants."""
        return int((await self._ask("_count", {}, 5.0))["count"])

    async def _ask(self, what: str, body: Mapping[str, Any], timeout_s: float) -> Any:
        try:
            answer = await self._client.post(what, json=body, timeout=timeout_s)
        except httpx.HTTPError as error:
            raise TransientSourceError(f"OpenSearch cannot be reached ({type(error).__name__})") from error
        if answer.is_error:
            raise SourceError(f"OpenSearch answered {what} with {answer.status_code}")
        return answer.json()


def _filters(scope: Scope) -> list[Mapping[str, Any]]:
    times = {
        "gte": scope.since,
        "lt": scope.until,
        "lte": scope.as_of,
    }
    bounds = {name: moment for name, moment in times.items() if moment is not None}
    return [
        {"term": {"tenant": scope.tenant}},
        *([{"terms": {"tags": list(scope.tags)}}] if scope.tags else []),
        *([{"range": {"ts": bounds}}] if bounds else []),
    ]


def _hit(tenant: str, one: Mapping[str, Any]) -> Hit:
    document = one["_source"]
    memory = MemoryView(
        id=cited_id("docs", one["_id"]),
        text=document["text"],
        text_hash=text_hash(document["text"]),
        ts=document.get("ts"),
        tags=tuple(document.get("tags", ())),
    )
    return Hit(key=mapped_key("docs", tenant, one["_id"]), score=one["_score"], read=lambda: memory)
