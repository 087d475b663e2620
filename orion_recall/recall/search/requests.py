"""Search requests: scope, lane, a request for each source, and bundle caps, made from query and profile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.errors import InvalidMessage
from orion_recall.profile.model import CANDIDATES, Profile
from orion_recall.recall.bundle.select import Caps, Shown
from orion_recall.settings import LaneUse
from orion_recall.source_specs import source_names
from orion_recall.text.redaction import NO_REDACTION, Redaction
from orion_recall.values import Question, Scope, SearchRequest, SourceName

# Two limits that differ by less are the same: a cascade counts its time from a moment later.
_SAME_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Seconds for the whole pass, and for each of its sources. `full_s` is what a query has whose caller allows as
    much time as this service gives."""

    pass_s: float
    full_s: float
    own_s: float

    @property
    def source_s(self) -> float:
        """Seconds that one source may take."""
        return min(self.pass_s, self.own_s)

    @property
    def is_short(self) -> bool:
        """Whether sources have less than the time that is fair: being late is then not their fault."""
        return self.leaves_less(self.source_s, self.own_s)

    def leaves_less(self, allowed_s: float, own_s: float, *, after_s: float = 0.0) -> bool:
        """Whether `allowed_s`, `after_s` into the pass, is less than a limit of one's own and than others have."""
        return allowed_s < min(own_s, self.full_s - after_s) - _SAME_S


NO_OPTIONS = RecallOptionsV1()


def scope_of(query: RecallQueryV1, profile: Profile, tenant: str) -> Scope:
    """The scope of the query. InvalidMessage for scope session or user without its id."""
    options = query.options or NO_OPTIONS
    name = options.scope or profile.scope
    if name == "session" and query.session_id is None:
        raise InvalidMessage("payload.options.scope: session needs payload.session_id")
    if name == "user" and options.user is None:
        raise InvalidMessage("payload.options.scope: user needs payload.options.user")
    return Scope(
        tenant=tenant,
        session_id=query.session_id if name == "session" else None,
        user_id=options.user if name == "user" else None,
        agent_id=options.agent_id,
        run_id=options.run_id,
        kinds=options.kinds,
        tags=options.tags,
        since=options.since.timestamp() if options.since else None,
        until=options.until.timestamp() if options.until else None,
        as_of=options.as_of.timestamp() if options.as_of else None,
    )


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


def requests_of(
    question: Question, scope: Scope, profile: Profile, options: RecallOptionsV1, limits: TimeLimits
) -> dict[SourceName, SearchRequest]:
    """The request for every source that the profile has switched on: they are asked for the same."""
    graph = profile.graph
    asked = SearchRequest(
        question=question,
        scope=scope,
        limit=CANDIDATES[options.budget or profile.budget],
        timeout_s=limits.source_s,
        is_short=limits.is_short,
        min_score=profile.min_similarity or -1.0,
        window_minutes=profile.sql_since_minutes,
        hops=graph.hops,
        max_entities=graph.max_entities,
        max_statements=graph.max_statements,
        with_aliases=profile.enable_query_expansion and profile.expansion.aliases,
        similar_entities=graph.similar_entities,
        graph_method=graph.arm,
        graph_damping=graph.damping,
        graph_rounds=graph.rounds,
        path_hops=graph.path_hops,
        path_expansions=graph.path_expansions,
        path_time=graph.path_time,
    )
    return dict.fromkeys(profile.sources_on, asked)


def caps_of(profile: Profile, options: RecallOptionsV1) -> Caps:
    """The caps of the bundle. More items than the profile gives, by `k`, lift those of each source."""
    k = options.k or 0
    least = k if k > profile.max_total_items else 0
    return Caps(
        source_top_k={name: max(profile.top_k(name), least) for name in source_names()},
        max_per_source=max(profile.max_per_source, least),
        max_total_items=options.k or profile.max_total_items,
        budget_tokens=options.max_tokens or profile.render_budget_tokens,
        snippet_tokens=profile.snippet_tokens,
        later_snippet_tokens=min(profile.snippet_tokens, profile.later_snippet_tokens),
        over_budget=profile.over_budget,
        max_repetition=profile.max_repetition,
    )


def shown_of(question: Question, profile: Profile, zone: tzinfo, redaction: Redaction = NO_REDACTION) -> Shown:
    """What the bundle's lines show; dates are those of the asker's zone."""
    return Shown(
        style=profile.render.style,
        asks_when=question.time.asks_when or question.time.ahead,  # of what is to come an answer tells when it is
        now=question.now if profile.render.relative_dates else None,
        redaction=redaction,
        flags_instructions=profile.reader_instructions in ("flag", "down"),
        zone=zone,
    )
