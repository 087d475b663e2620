"""An external graph as a read-only store of the graph source: things by their labels, and their links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from rdflib import Literal, URIRef

from orion_recall.errors import ScopeNotKept
from orion_recall.external.mappings import SparqlMapping
from orion_recall.external.qdrant import time_of
from orion_recall.interfaces import GraphStore, in_scope
from orion_recall.sources.hits import MOST_LINE, MOST_TEXT, cited_id, mapped_key
from orion_recall.text.normal import STOP_WORDS, storable, text_hash, words
from orion_recall.text.small_talk import is_chatter
from orion_recall.values import Hit, MemoryView, Scope, SearchRequest, SourceName

# Without these a row is no memory.
_NEEDED = frozenset({"thing", "text"})
_LONGEST_LABEL = 4
_MOST_LABELS = 96
_LANGUAGES = (None, "en")
# Rows are filtered by their times here, for graphs write times in several types: so many times more are asked for.
_TIMED_MORE = 4
# A thing that is named, and one that is linked to it; every further word that the text shares adds to it.
_NAMED, _LINKED, _SHARED_WORD = 1.0, 0.4, 0.2


class MappedGraphSource:
    """A mapped graph in the graph source. Scores are on our own graph's scale: 1 for what the question names."""

    name: SourceName = "rdf"

    def __init__(self, graph: GraphStore, mapping: SparqlMapping) -> None:
        self._graph, self.mapping = graph, mapping

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        scope = request.scope
        if not self.answers_for(scope.tenant):
            return []
        if replace(scope, since=None, until=None, as_of=None) != Scope(tenant=scope.tenant):
            raise ScopeNotKept(
                f"the store {self.mapping.name!r} knows tenants and times only: it cannot keep to this scope"
            )
        is_timed = scope.since is not None or scope.until is not None
        labels = possible_labels(request.question.text)
        if not labels or (is_timed and not self.mapping.time):  # what has no time is within no period
            return []
        limit = request.limit * (_TIMED_MORE if is_timed else 1)
        answered = await self._graph.select(label_query(self.mapping, labels, limit))
        rows = [
            {name: value[: MOST_TEXT if name == "text" else MOST_LINE] for name, value in row.items()}
            for row in answered
            if row.keys() >= _NEEDED and len(row["thing"]) <= MOST_LINE
        ]
        if is_timed or scope.as_of is not None:
            rows = [row for row in rows if in_scope(_memory(row, self.mapping.name), scope)]
        found: dict[str, tuple[float, Mapping[str, str]]] = {}
        for row in rows:
            shared = len(request.question.terms.intersection(words(row["text"])))
            score = (_NAMED if row.get("hop") == "0" else _LINKED) + _SHARED_WORD * shared
            if score > found.get(row["thing"], (0.0, row))[0]:
                found[row["thing"]] = score, row
        best = sorted(found.items(), key=lambda one: (-one[1][0], one[0]))[: request.limit]
        name = self.mapping.name
        return [
            Hit(mapped_key(name, scope.tenant, thing), round(score, 6), partial(_memory, row, name))
            for thing, (score, row) in best
        ]

    def answers_for(self, tenant: str) -> bool:
        return tenant == self.mapping.tenant

    async def sample(self) -> Mapping[str, str] | None:
        """One thing with its label and text, or nothing when the graph has none."""
        pattern = f"?thing {URIRef(self.mapping.label).n3()} ?label . {_said(self.mapping)}"
        rows = await self._graph.select(
            f"SELECT ?thing ?label ?text ?time WHERE {{ {_inside(self.mapping, pattern)} }} LIMIT 1"
        )
        return rows[0] if rows else None


def possible_labels(text: str) -> list[str]:
    """The runs of words in the text that may be a label, as written, capitalised and in small letters."""
    written = [part.strip(".,;:!?\"'“”()[]") for part in storable(text).split()[:64]]
    found: dict[str, None] = {}
    for length in range(min(_LONGEST_LABEL, len(written)), 0, -1):
        for start in range(len(written) - length + 1):
            run = " ".join(written[start : start + length]).removesuffix("'s").removesuffix("’s")
            if run and not all(word in STOP_WORDS for word in run.casefold().split()):
                found |= dict.fromkeys((run, run.capitalize(), run.title(), run.lower()))
    return list(found)[:_MOST_LABELS]


def label_query(mapping: SparqlMapping, labels: Sequence[str], limit: int) -> str:
    """SPARQL for rows of (thing, hop, label, text, time): what is named, and one link around it."""
    values = " ".join(Literal(label, lang=language).n3() for label in labels for language in _LANGUAGES)
    named = f"VALUES ?label {{ {values} }} ?named {URIRef(mapping.label).n3()} ?label ."
    parts = [
        f'{{ SELECT ?thing ("0" AS ?hop) ?label ?text ?time WHERE {{ {named} BIND(?named AS ?thing) '
        f"{_said(mapping)} }} LIMIT {limit} }}",
        f'{{ SELECT ?thing ("1" AS ?hop) ?label ?text ?time WHERE {{ {named} {{ ?thing ?by ?named }} UNION '
        f"{{ ?named ?to ?thing FILTER(isIRI(?thing)) }} {_said(mapping)} }} LIMIT {limit} }}",
    ]
    return f"SELECT ?thing ?hop ?label ?text ?time WHERE {{ {_inside(mapping, ' UNION '.join(parts))} }}"


def _said(mapping: SparqlMapping) -> str:
    time = f"OPTIONAL {{ ?thing {URIRef(mapping.time).n3()} ?time }}" if mapping.time else ""
    return f"?thing {URIRef(mapping.text).n3()} ?text . {time}"


def _inside(mapping: SparqlMapping, pattern: str) -> str:
    return f"GRAPH {URIRef(mapping.graph).n3()} {{ {pattern} }}" if mapping.graph else pattern


def _memory(row: Mapping[str, str], store: str) -> MemoryView:
    text = storable(row["text"])
    return MemoryView(
        id=cited_id(store, row["thing"]),
        text=text,
        text_hash=text_hash(text),
        title=storable(row["label"]) if row.get("hop") == "0" and "label" in row else None,
        ts=time_of(row["time"]) if "time" in row else None,
        uri=row["thing"],
        source_ref=store,
        chatter=is_chatter(text),
    )
