"""One logged query asked again on the data as its decision found them, for an explanation of it."""

from __future__ import annotations

from orion_recall.contracts import RecallDecisionV1
from orion_recall.engines.replay_folders import replay_folder
from orion_recall.errors import SettingsError, SourceError
from orion_recall.evaluation.decision_replay.logged import OF_NO_RECORD, began_at, is_of_record
from orion_recall.evaluation.decision_replay.past_stores import past_stores
from orion_recall.evaluation.plan import Cache, Progress
from orion_recall.postgres.pool import Pool
from orion_recall.profile.watch import profiles_with_default
from orion_recall.serving.explain import Asker
from orion_recall.serving.recall_again import Again, asked_again
from orion_recall.settings import Settings


def as_of_decision(cache: Cache | None, progress: Progress) -> Asker:
    """An asker on the data as of the decision: it builds index and graph from the history, and deletes them."""

    async def ask(pool: Pool, settings: Settings, decision: RecallDecisionV1, memory_id: str | None) -> Again:
        if settings.dsn is None:
            raise SettingsError("no Postgres: what the data were is read from the record")
        tenant, read_at = decision.tenant or settings.default_tenant, decision.read_at or {}
        if not all(await is_of_record(pool, [read_at])):
            raise SourceError(f"it cannot be asked again as of then: {OF_NO_RECORD}")
        with replay_folder(settings.data_dir) as folder:
            async with past_stores(settings, settings.dsn, folder / "data", [tenant], cache) as stores:
                await stores.move(await stores.past.moment(began_at(decision), read_at), read_at, progress)
                return await asked_again(
                    decision.id,
                    memory_id,
                    pool=pool,
                    settings=settings,
                    sources=stores.sources,
                    profiles=profiles_with_default(settings),
                )

    return Asker(ask=ask, data="the data as the decision found them")
