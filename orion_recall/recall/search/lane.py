"""The visibility lane of a query: it narrows the search, or it is ignored, as the settings say."""

from __future__ import annotations

from orion_recall.contracts import RecallQueryV1
from orion_recall.errors import InvalidMessage
from orion_recall.profile import Profile
from orion_recall.recall.search.requests import NO_OPTIONS
from orion_recall.setting_values import LaneUse


def narrowed(query: RecallQueryV1, profile: Profile, use: LaneUse) -> RecallQueryV1 | None:
    """The query narrowed by its lane; None where the lane is ignored.

    As a tag: only memories with that tag. As a scope: session or user, where all of a tenant's memories would be
    searched; it is ignored where the query's own scope is as narrow. InvalidMessage when tag and lane exclude each
    other.
    """
    lane, options = query.lane, query.options or NO_OPTIONS
    if lane is None or use == "ignore":
        return None
    if use == "tag":
        if options.tags and lane not in options.tags:
            raise InvalidMessage(
                "payload.lane: it is a tag that memories must have (ORION_QUERY_LANE): "
                "name it in payload.options.tags as well, or no tag there"
            )
        return query.model_copy(update={"options": options.model_copy(update={"tags": (lane,)})})
    scope = options.scope or profile.scope
    if lane == scope:
        return query
    if scope == "global" and lane in ("session", "user"):
        return query.model_copy(update={"options": options.model_copy(update={"scope": lane})})
    return None
