"""The engines' calls of a recall, alone on the stores; and what the index finds of the exact answer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from tests.bench.engine_floors import EngineFloors, recorded
from tests.bench.measure import Cost
from tests.bench.running_worker import queries_from
from tests.bench.scale.memories import LARGE, SMALL
from tests.bench.scale.stores import Stores, settings_of

_QUESTIONS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What each call costs for one tenant, and the mean share of the exact first 10 and 100 that is found."""

    tenant: str
    costs: Mapping[str, Cost]
    found: Mapping[int, float]
    segments: int


async def call_engines(stores: Stores, profile: str) -> list[Called]:
    """Both tenants; nobody else may have the stores' index and graph open."""
    return [await _called(stores, tenant, profile) for tenant in (SMALL, LARGE)]


async def _called(stores: Stores, tenant: str, profile: str) -> Called:
    dsn = stores.engines.postgres_dsn
    settings = settings_of(stores.data, dsn).changed(
        redis_url=SecretStr(stores.engines.redis_url), default_tenant=tenant
    )
    queries = list(itertools.islice(queries_from(stores.sessions[tenant], profile), _QUESTIONS))
    asked = await recorded(settings, profile, queries, stores.now)
    async with EngineFloors.open(stores.data, dsn, asked) as floors:
        costs = await floors.measure()
        return Called(tenant=tenant, costs=costs, found=floors.found(), segments=floors.segments)
