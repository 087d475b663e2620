"""The layers of a cascade for one query: the first one, and the scope and profile of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from orion_recall.contracts import RecallOptionsV1
from orion_recall.contracts.confidence import NotAsked
from orion_recall.profile import Profile
from orion_recall.profile.cascade import Cascade, Layer, LayerName, MergeWeights
from orion_recall.values import Scope

# All layers' items are compared with each other: without a limit a large k would cost gigabytes.
MOST_OF_A_LAYER = 300
# The first layer for a question of a class; for a fact, and where the class is not known, semantic.
FIRST: Mapping[str, LayerName] = {
    "temporal": "episodic",
    "relational": "graph",
    "procedural": "procedural",
    "planning": "planning",
    "prospective": "prospective",
    "meta": "meta",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one query's cascade: its depth, its threshold and its scope."""

    cascade: Cascade
    first: LayerName
    threshold: float
    merge: MergeWeights
    max_depth: int
    most: int
    scope: Scope
    asked_scope: bool
    session_id: str | None
    user_id: str | None


def limits_of(
    profile: Profile,
    options: RecallOptionsV1,
    scope: Scope,
    session_id: str | None,
    question_class: str = "factual",
) -> Limits | None:
    """The query's limits; None where neither the query nor its profile has a cascade on."""
    cascade = profile.cascade
    if not (cascade.enabled if options.cascade is None else options.cascade):
        return None
    threshold, depth = options.confidence_threshold, options.max_cascade_depth
    merge = cascade.merge
    if options.merge_strategy is not None:
        merge = merge.model_copy(update={"strategy": options.merge_strategy})
    return Limits(
        cascade=cascade,
        first=cascade.first or FIRST.get(question_class, "semantic"),
        threshold=cascade.threshold if threshold is None else threshold,
        merge=merge,
        max_depth=cascade.max_depth if depth is None else depth,
        most=min(cascade.over_fetch * (options.k or profile.max_total_items), MOST_OF_A_LAYER),
        scope=scope,
        asked_scope=options.scope is not None,
        session_id=session_id,
        user_id=options.user,
    )


def scope_of_layer(layer: Layer, limits: Limits) -> Scope | NotAsked:
    """The scope of a layer, never wider than the query's; or why it can see nothing."""
    kinds = _both(limits.scope.kinds, layer.kinds)
    tags = _both(limits.scope.tags, layer.tags)
    if kinds is None or tags is None:
        return "other_kinds" if kinds is None else "other_tags"
    scope = replace(limits.scope, kinds=kinds, tags=tags)
    if layer.scope is None:
        return scope
    if not limits.asked_scope:
        scope = replace(scope, session_id=None, user_id=None)  # the profile's, and this layer has its own
    if layer.scope == "session":
        session = limits.session_id
        return "no_session" if session is None else replace(scope, session_id=session)
    if layer.scope == "user":
        return "no_user" if limits.user_id is None else replace(scope, user_id=limits.user_id)
    return scope


def _both(asked: tuple[str, ...], searched: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names in both lists, where an empty list means all; None when there are none."""
    if not asked or not searched:
        return asked or searched
    return tuple(name for name in asked if name in searched) or None


def profile_of_layer(layer: Layer, by: Profile, most: int) -> Profile:
    """The profile by which a layer is searched: the query's, with the layer's sources on."""
    sources = layer.sources or by.sources_on
    return by.model_copy(
        update={
            "vector_top_k": most if "vector" in sources else 0,
            "lexical_top_k": most if "lexical" in sources else 0,
            "rdf_top_k": most if "rdf" in sources else 0,
            "enable_sql_timeline": "sql_timeline" in sources,
            "sql_top_k": most,
            "rank_pool": max(by.rank_pool, most),
        }
    )
