"""The bounded neighbourhood of a few entities: fixed patterns of one or two hops, each with its own limit.

No property paths with + or *: the engine would compute the whole closure first. Every sub-select has a limit, so an
entity mentioned a hundred thousand times costs no more than one mentioned ten times.
"""

from __future__ import annotations

from collections.abc import Sequence

from rdflib import URIRef
from rdflib.namespace import PROV

from orion_recall.graph.tenant_graph import scope_conditions
from orion_recall.graph.vocabulary import ORION
from orion_recall.values import Scope


def neighbourhood_query(
    graph: URIRef, entities: Sequence[URIRef], *, scope: Scope, hops: int, max_statements: int
) -> str:
    """SPARQL for rows of (seed, hop, memory, text); text is unbound where a memory only mentions the entity.

    `seed` is the entity's place in `entities`. Only memories in scope are found and count towards the limits; the
    scope's tenant is the graph. IRIs and values enter through rdflib's own n3().
    """
    each = max(4, max_statements // max(1, len(entities)))
    seen = scope_conditions(scope)
    parts: list[str] = []
    for place, entity in enumerate(entities):
        seed = entity.n3()
        about, text, from_ = ORION.about.n3(), ORION.text.n3(), PROV.wasDerivedFrom.n3()
        parts.append(
            f'{{ SELECT ("{place}" AS ?seed) ("1" AS ?hop) ?memory ?text WHERE '
            f"{{ ?s {about} {seed} ; {text} ?text ; {from_} ?memory {seen}}} LIMIT {each} }}"
        )
        parts.append(
            f'{{ SELECT ("{place}" AS ?seed) ("1" AS ?hop) ?memory WHERE '
            f"{{ ?memory {ORION.mentions.n3()} {seed} {seen}}} LIMIT {each} }}"
        )
        if hops >= 2:
            parts.append(
                f'{{ SELECT ("{place}" AS ?seed) ("2" AS ?hop) ?memory ?text WHERE '
                f"{{ {{ SELECT DISTINCT ?other WHERE {{ ?a {about} {seed} ; {about} ?other "
                f"FILTER(?other != {seed}) }} LIMIT {each} }} "
                f"?s {about} ?other ; {text} ?text ; {from_} ?memory {seen}}} LIMIT {each} }}"
            )
    return f"SELECT ?seed ?hop ?memory ?text WHERE {{ GRAPH {graph.n3()} {{ {' UNION '.join(parts)} }} }}"
