"""The replay: logged decisions, each asked again, in the order in which they were asked.

Three answers are compared: the logged one; the control, by the logged profile, so that what differs is due to code,
data or time; and that of the tried profile, on the same stores. No access is counted, and nothing is
written to log, bus or record.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Literal, LiteralString
from uuid import UUID

from orion_recall.contracts import RecallDecisionV1, RecallQueryV1
from orion_recall.decisions.comparison import NOT_JUDGED, Answer
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.memories import Judged, judgements
from orion_recall.engines.replay_folders import replay_folder
from orion_recall.errors import InvalidMessage, SettingsError, SourceError
from orion_recall.evaluation.replay.past import Moment, PastStores, past_stores
from orion_recall.evaluation.trials import SOURCE_TIMEOUT_MS, Progress, patient
from orion_recall.evaluation.vectors import VectorCache
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.profile import Profile
from orion_recall.profile.watch import loaded_profiles, profiles_with_default
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.report.asked import clock_of, query_of, why_not_again
from orion_recall.recall.search.requests import narrowed
from orion_recall.serving.explain import Again, Asker, asked_again, served_profile
from orion_recall.settings import Settings
from orion_recall.values import Outcome

AsOf = Literal["decision", "now"]
# Vectors of one text differ in the last bits from one batch to another.
_ROUNDING = 1e-3
# The service answered these completely; time decided about the others, and nobody can repeat that.
_WHOLE: frozenset[Outcome] = frozenset(("ok", "empty"))
_PAGE = 500
_OF_ANOTHER_VERSION = "this version cannot read what was asked"

OF_NO_RECORD = "the positions that its copies were at are none of this record"
_HEAD: LiteralString = "SELECT coalesce(max(position), 0) FROM outbox"
_WANTED: LiteralString = """
SELECT id FROM recall_decisions
WHERE shadow_of IS NULL
  AND ($1::timestamptz IS NULL OR created_at >= $1) AND ($2::timestamptz IS NULL OR created_at < $2)
  AND ($3::text IS NULL OR tenant = $3) AND ($4::text IS NULL OR understood ->> 'class' = $4)
  AND ($5::text IS NULL OR profile = $5) AND ($6::text[] IS NULL OR id::text = ANY($6) OR corr_id = ANY($6))
ORDER BY created_at, id
"""
_ERASED = """
SELECT wanted.id FROM unnest($2::text[]) AS wanted (id)
WHERE NOT EXISTS (SELECT FROM {old}.memories m WHERE m.tenant = $1 AND m.id = wanted.id AND m.content_hash <> '')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which decisions are repeated; None means all. `ids` are those of decisions, or correlation ids.

    Of more than `sample` that many are drawn, by `seed`.
    """

    since: datetime | None = None
    until: datetime | None = None
    tenant: str | None = None
    query_class: str | None = None
    profile: str | None = None
    ids: tuple[str, ...] | None = None
    sample: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedQuery:
    """A query as the log has it, and how it was answered.

    `began` is when it was served, `clock` what it took for now, `read_at` what each copy had applied.
    """

    id: str
    tenant: str
    profile: str
    profile_hash: str
    query_class: str
    query: RecallQueryV1
    clock: float
    began: datetime
    read_at: Mapping[str, int]
    build: Mapping[str, str]
    answer: Answer
    judged: Judged = NOT_JUDGED


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """What is replayed: the choice of queries, the tried profile (None: only the logged one), on which data."""

    choice: Choice
    tried: Profile | None = None
    as_of: AsOf = "decision"
    cache: VectorCache | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One query asked again. `why` is what may be the reason where the control is not the logged answer.

    `erased` are ids of the logged answer that the record does not hold any more.
    """

    logged: LoggedQuery
    control: Answer
    tried: Answer | None
    erased: tuple[str, ...] = ()
    why: str | None = None


@dataclass(slots=True, kw_only=True)
class ReplayRun:
    """What the choice gave, and all that was asked again.

    `logged` can be asked again, in the order in which it was asked; `matching` counts before the sample.
    `apart` counts queries that time decided about, by outcome, and `not_replayable` those that the log does not
    hold whole, by reason. `silent` has the sources that did not answer, with how often.
    """

    matching: int = 0
    logged: list[LoggedQuery] = field(default_factory=list[LoggedQuery])
    apart: Counter[str] = field(default_factory=Counter[str])
    not_replayable: Counter[str] = field(default_factory=Counter[str])
    queries: list[Replayed] = field(default_factory=list[Replayed])
    silent: Counter[str] = field(default_factory=Counter[str])
    seconds: float = 0.0


async def _read(pool: Pool, choice: Choice) -> ReplayRun:
    """The decisions of the choice. RecordError: Postgres is away, or this login may not read."""
    async with borrow(pool, "reading decisions") as connection:
        conditions = (choice.since, choice.until, choice.tenant, choice.query_class, choice.profile)
        ids = None if choice.ids is None else list(choice.ids)
        names: list[UUID] = [row["id"] for row in await connection.fetch(_WANTED, *conditions, ids)]
    run = ReplayRun(matching=len(names))
    if choice.sample is not None and choice.sample < len(names):
        # Not for secrets: the same seed has to give the same sample.
        names = random.Random(choice.seed).sample(names, choice.sample)  # noqa: S311
    for start in range(0, len(names), _PAGE):
        page = names[start : start + _PAGE]
        judged, decisions = await judgements(pool, page), await DecisionLog(pool).of_ids(page)
        if len(decisions) < len(page):
            run.not_replayable[_OF_ANOTHER_VERSION] += len(page) - len(decisions)
        for decision in decisions:
            _add(decision, judged.get(decision.id, NOT_JUDGED), run)
    run.logged.sort(key=lambda one: (one.began, one.id))
    return run


async def is_of_record(pool: Pool, positions: Iterable[Mapping[str, int]]) -> list[bool]:
    """Whether the record has been at these positions of copies. RecordError."""
    async with borrow(pool, "reading the head of the record") as connection:
        head = int(await connection.fetchval(_HEAD))
    return [all(0 <= at <= head for at in one.values()) for one in positions]


def why_none(run: ReplayRun, choice: Choice) -> str:
    """Why there is no query to ask again, and which options take more."""
    if run.matching:
        left_out = [*run.apart.items(), *run.not_replayable.items()]
        return "no query can be asked again: " + "; ".join(f"{count} {why}" for why, count in left_out)
    told, more = "no decision of the log was chosen", list[str]()
    if choice.profile is not None:
        told += f" under {choice.profile}"
        more.append("--profile-of NAME takes those of another profile, --profile-of any those of all")
    if choice.since is not None:
        more.append("an earlier --since takes older ones")
    return f"{told}: {'; '.join(more)}" if more else told


def _add(decision: RecallDecisionV1, judged: Judged, run: ReplayRun) -> None:
    if decision.outcome not in _WHOLE:
        run.apart[decision.outcome] += 1
    elif decision.cascade is not None and decision.cascade.ended == "deadline":
        run.apart["cascade ended by its deadline"] += 1
    elif (why := why_not_again(decision)) is not None:
        run.not_replayable[why] += 1
    elif decision.profile_hash is None or decision.tenant is None:
        run.not_replayable["the log does not hold its profile and tenant"] += 1
    else:
        try:
            run.logged.append(_logged(decision, decision.tenant, decision.profile_hash, judged))
        except (InvalidMessage, ValueError):
            run.not_replayable[_OF_ANOTHER_VERSION] += 1


def _logged(decision: RecallDecisionV1, tenant: str, profile_hash: str, judged: Judged) -> LoggedQuery:
    shown = frozenset(decision.selected_ids)
    told = (decision.understood or {}).get("class")
    return LoggedQuery(
        id=decision.id,
        tenant=tenant,
        profile=decision.profile,
        profile_hash=profile_hash,
        query_class=told if isinstance(told, str) else "-",
        query=query_of(decision),
        clock=clock_of(decision),
        began=began_at(decision),
        read_at=decision.read_at or {},
        build=decision.build or {},
        answer=Answer(
            ids=tuple(decision.selected_ids),
            outcome=decision.outcome,
            unsure=decision.unsure,
            tokens=decision.tokens,
            confidence=decision.confidence,
            ms=decision.latency_ms,
            scores={one.id: one.score for one in decision.selected},
        ),
        judged=Judged(used=shown & judged.used, wrong=shown & judged.wrong),
    )


def began_at(decision: RecallDecisionV1) -> datetime:
    """When the recall itself began: what the query waited for before is none of it."""
    took_ms = sum(ms for stage, ms in decision.stage_ms.items() if stage != "total")
    return decision.created_at - timedelta(milliseconds=took_ms)


async def replay(pool: Pool, settings: Settings, plan: ReplayPlan, progress: Progress) -> ReplayRun:
    """Asks again what was chosen. RecordError: Postgres is away. SourceError: the stores cannot be opened."""
    began = time.perf_counter()
    run = await _read(pool, plan.choice)
    served = await _profiles(pool, settings, run)
    if plan.as_of == "decision":
        # Copies of the others were where the record never was: a replay would go there for all that come after.
        _take_out(run, await is_of_record(pool, [one.read_at for one in run.logged]), OF_NO_RECORD)
    if run.logged:
        assert settings.dsn is not None
        tenants = sorted({one.tenant for one in run.logged})
        with replay_folder(settings.data_dir) as folder:
            async with past_stores(settings, settings.dsn, folder / "data", tenants, plan.cache) as stores:
                await _Asking(settings=settings, plan=plan, stores=stores, served=served, run=run).all(progress)
    run.seconds = time.perf_counter() - began
    return run


def _take_out(run: ReplayRun, stays: Sequence[bool], why: str) -> None:
    if not all(stays):
        run.not_replayable[why] += stays.count(False)
        run.logged = [one for one, stay in zip(run.logged, stays, strict=True) if stay]


async def _profiles(pool: Pool, settings: Settings, run: ReplayRun) -> Mapping[str, Profile]:
    """The logged profiles by hash; queries whose profile cannot be had are taken out."""
    now = {one.content_hash: one.profile for one in loaded_profiles(settings.profiles_dir).values()}
    found: dict[str, Profile] = {}
    for content_hash in dict.fromkeys(one.profile_hash for one in run.logged):
        if (profile := now.get(content_hash) or await served_profile(pool, content_hash)) is not None:
            found[content_hash] = profile
    stays = [one.profile_hash in found for one in run.logged]
    _take_out(run, stays, "the text of its profile is not kept, or of another version")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    settings: Settings
    plan: ReplayPlan
    stores: PastStores
    served: Mapping[str, Profile]
    run: ReplayRun

    async def all(self, progress: Progress) -> None:
        now, shown = datetime.now(UTC), False
        for done, logged in enumerate(self.run.logged, 1):
            past, read_at = self.stores.past, logged.read_at
            if self.plan.as_of == "now":
                moment, read_at = Moment(position=await past.head_at(now, after=past.position), at=now), None
            else:
                moment = await past.moment(logged.began, logged.read_at)
            await self.stores.move(moment, read_at, None if shown else progress)
            if not shown:
                progress.begins("queries", len(self.run.logged))
                shown = True
            self.run.queries.append(await self._one(logged, moment))
            progress.advanced(done)

    async def _one(self, logged: LoggedQuery, moment: Moment) -> Replayed:
        # In turns the one and the other first: the second finds more in caches.
        asked = {"control": self.served[logged.profile_hash], "tried": self.plan.tried}
        order = reversed(asked) if len(self.run.queries) % 2 else asked
        found = {
            name: await self._answer(logged, profile) for name in order if (profile := asked[name]) is not None
        }
        past, control = self.stores.past, found["control"]
        rows = await past.fetch(past.of_record(_ERASED), [logged.tenant, list(logged.answer.ids)])
        erased, why = tuple(row["id"] for row in rows), None
        if control.ids != logged.answer.ids:
            why = why_different(
                logged,
                control,
                erased=erased,
                model=self.stores.embedder.name,
                is_of_now=self.plan.as_of == "now",
                copies={kind: copy.position for kind, copy in self.stores.copies.items()},
                position=moment.position,
            )
        return Replayed(logged=logged, control=control, tried=found.get("tried"), erased=erased, why=why)

    async def _answer(self, logged: LoggedQuery, profile: Profile) -> Answer:
        began = time.perf_counter()
        try:
            recalled = await recall(
                narrowed(logged.query, profile, self.settings.query_lane) or logged.query,
                patient(profile),
                self.stores.sources,
                tenant=logged.tenant,
                now=logged.clock,
                timeout_s=SOURCE_TIMEOUT_MS / 1000,
            )
        except InvalidMessage:  # such as a scope that the query has no id for
            return Answer(outcome="invalid")
        for report in recalled.reports:
            if report.status in ("failed", "late"):
                self.run.silent[f"{report.source}: {report.error or report.status}"] += 1
        return answer_of(recalled, (time.perf_counter() - began) * 1000)


def answer_of(recalled: Recalled, ms: float) -> Answer:
    items = [item.scored for item in recalled.selection.items]
    return Answer(
        ids=tuple(item.memory.id for item in items),
        outcome=recalled.outcome,
        unsure=recalled.is_unsure,
        tokens=recalled.selection.tokens,
        confidence=recalled.confidence.overall,
        ms=ms,
        scores={item.memory.id: item.score for item in items},
        rendered=recalled.rendered,
    )


def why_different(
    logged: LoggedQuery,
    control: Answer,
    *,
    erased: Sequence[str],
    model: str,
    is_of_now: bool,
    copies: Mapping[str, int],
    position: int,
) -> str:
    """Why the logged profile gives another answer than the log: the first reason that holds, else "unknown".

    `copies` are the positions of the replay's own copies, `position` that of its record.
    """
    build, read_at, here = logged.build, logged.read_at, version("orion-recall")
    further = [kind for kind, at in read_at.items() if copies.get(kind, at) > at]
    reasons: dict[str, object] = {
        "memories of the answer were erased since, or are of another store": erased,
        f"it was answered by version {build.get('version')}, this is {here}": build.get("version", here) != here,
        f"it was answered with the model {build.get('model')}, this is {model}": build.get("model", model) != model,
        "the memories have changed since": is_of_now,
        f"several workers' copies were at different positions: {', '.join(further)} is further here": further,
        "the log does not hold which changes the copies had applied": not read_at,
        "changes were under way: the copies had not applied them": any(at < position for at in read_at.values()),
        "memories with equal scores, but for the last bits, are in another order": _is_of_rounding(
            logged.answer, control
        ),
    }
    unknown = "unknown: something outside the record, such as how often memories were used, or an extraction since"
    return next((why for why, holds in reasons.items() if holds), unknown)


def _is_of_rounding(logged: Answer, control: Answer) -> bool:
    """Whether all scores are those that were logged, and those of one answer alone are like the other's last."""
    both = [name for name in logged.ids if name in control.scores]
    if any(abs(logged.scores.get(name, 0.0) - control.scores[name]) > _ROUNDING for name in both):
        return False
    return len(logged.ids) == len(control.ids)


def as_of_decision(cache: VectorCache | None, progress: Progress) -> Asker:
    """An asker for explanations on the data as of the decision: built from the history, and deleted."""

    async def ask(pool: Pool, settings: Settings, decision: RecallDecisionV1, memory_id: str | None) -> Again:
        if settings.dsn is None:
            raise SettingsError("no Postgres: what the data were is read from the record")
        tenant, read_at = decision.tenant or settings.default_tenant, decision.read_at or {}
        if not all(await is_of_record(pool, [read_at])):
            raise SourceError(f"it cannot be asked again as of then: {OF_NO_RECORD}")
        with replay_folder(settings.data_dir) as folder:
            async with past_stores(settings, settings.dsn, folder / "data", [tenant], cache) as stores:
                await stores.move(await stores.past.moment(began_at(decision), read_at), read_at, progress)
                profiles = profiles_with_default(settings)
                return await asked_again(
                    pool, settings, stores.sources, profiles, decision_id=decision.id, memory_id=memory_id
                )

    return Asker(ask=ask, data="the data as the decision found them")
