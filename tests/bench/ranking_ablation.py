"""Ablated profiles: one without the added ranking features, and one for each option of the graph source.

The first version fused the sources and ranked by fused score, similarity and recency. Added since are late
interaction, learned weights, time, followed links, paths, query expansion, cascade and strategies. The ablated
profile has the defaults in these sections and the smaller rank pool of then.
"""

from __future__ import annotations

from typing import Any

from orion_recall.profile import Profile
from orion_recall.profile.sections import GraphWalk, Rerank

ADDED_SECTIONS = ("ranking", "time", "expansion", "rerank", "cascade", "no_answer", "strategies")
RANK_POOL_BEFORE = 48
# Long enough for a busy machine: a source that times out would cost less.
_PATIENT_MS = 60_000


def measured(profile: Profile) -> Profile:
    """The profile as it is measured: without a reranker, and with a long timeout."""
    return profile.model_copy(update={"rerank": Rerank(), "source_timeout_ms": _PATIENT_MS})


def before(profile: Profile) -> Profile:
    """The profile without the added ranking features."""
    fields = type(profile).model_fields
    changed: dict[str, Any] = {name: fields[name].get_default() for name in ADDED_SECTIONS}
    changed["rank_pool"] = RANK_POOL_BEFORE
    changed["graph"] = profile.graph.model_copy(update={"paths": False})
    return profile.model_copy(update=changed)


def graph_options(profile: Profile, deep: Profile) -> dict[str, Profile]:
    """The profile with the graph source alone: with defaults, with each option of `deep`, and with all of them."""
    default = GraphWalk()
    alone: dict[str, Any] = {"vector_top_k": 0, "lexical_top_k": 0, "enable_sql_timeline": False, "rdf_top_k": 12}
    mine: dict[str, Any] = {name: getattr(deep.graph, name) for name in GraphWalk.model_fields}
    changes: dict[str, dict[str, Any]] = {"by default": {}}
    for name in mine:
        if mine[name] != getattr(default, name):
            shown = str(mine[name]).lower() if isinstance(mine[name], bool) else mine[name]
            changes[f"{name}: {shown}"] = {name: mine[name]}
    changes[f"as {deep.profile}"] = mine
    return {
        told: profile.model_copy(update={**alone, "graph": default.model_copy(update=one)})
        for told, one in changes.items()
    }
