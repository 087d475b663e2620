"""reflect.v1 as it is, and with all that was added to its ranking switched off; and the graph's options.

Switched off is what has been added since sources were fused and ranked by fused score, similarity and recency: late
interaction, learned weights with their parts, times, what is followed, paths, further words, cascade, strategies. A
section of the profile goes back to its default, and as many candidates are ranked as were then.
"""

from __future__ import annotations

from typing import Any

from orion_recall.profile import Profile
from orion_recall.profile.sections import GraphWalk, Rerank

ADDED_SECTIONS = ("ranking", "time", "expansion", "rerank", "cascade", "no_answer", "strategies")
RANK_POOL_BEFORE = 48
# On a busy machine a source should be slow, and not late: what is late costs less.
_PATIENT_MS = 60_000


def measured(profile: Profile) -> Profile:
    """The profile as it is measured: without a reranker, which is not counted, and patient."""
    return profile.model_copy(update={"rerank": Rerank(), "source_timeout_ms": _PATIENT_MS})


def before(profile: Profile) -> Profile:
    """The profile with all that was added switched off."""
    fields = type(profile).model_fields
    changed: dict[str, Any] = {name: fields[name].get_default() for name in ADDED_SECTIONS}
    changed["rank_pool"] = RANK_POOL_BEFORE
    changed["graph"] = profile.graph.model_copy(update={"paths": False})
    return profile.model_copy(update=changed)


def graph_options(profile: Profile, deep: Profile) -> dict[str, Profile]:
    """The profile with the graph arm alone: by default, with each option as `deep` has it, and with all of them."""
    default = GraphWalk()
    alone: dict[str, Any] = {"vector_top_k": 0, "lexical_top_k": 0, "enable_sql_timeline": False, "rdf_top_k": 12}
    mine: dict[str, Any] = deep.graph.model_dump()
    changes: dict[str, dict[str, Any]] = {"by default": {}}
    for name, value in default.model_dump().items():
        if mine[name] != value:
            shown = str(mine[name]).lower() if isinstance(mine[name], bool) else mine[name]
            changes[f"{name}: {shown}"] = {name: mine[name]}
    changes[f"as {deep.profile}"] = mine
    return {
        told: profile.model_copy(update={**alone, "graph": default.model_copy(update=one)})
        for told, one in changes.items()
    }
