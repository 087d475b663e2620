"""A service with profiles of its own, whose decisions are explained: what it is asked, and what was lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from executor import until
from serving import caught_up, started_with_client

from orion_recall.client import RecallClient
from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.profile import Profile
from orion_recall.profile.reading import dump_profile
from orion_recall.recall.report.sentences import why_not_sentence
from orion_recall.recall.report.why_not import WhyNot
from orion_recall.serving.explain import why_not
from orion_recall.serving.service import Service
from orion_recall.settings import Settings

KEEPS, PLAIN, NEAR, SURE, TIMED = "keeps.v1", "plain.v1", "near.v1", "sure.v1", "timed.v1"
VALUES: dict[str, Any] = {
    "vector_top_k": 20, "rdf_top_k": 20, "max_per_source": 20, "max_total_items": 20,
    "render_budget_tokens": 2000, "source_timeout_ms": 20_000, "rank_pool": 10, "budget": "low",
}  # fmt: skip
PROFILES: dict[str, dict[str, Any]] = {
    KEEPS: {"decisions": {"share": 1.0}},
    PLAIN: {},
    NEAR: {"min_similarity": 0.45, "rdf_top_k": 0},
    SURE: {"no_answer": {"min_confidence": 0.99}},
    TIMED: {"time": {"filter": True}, "rank_pool": 50},
}
CRANE = {"id": "crane", "text": "The harbour crane needs a new gearbox by Friday.", "speaker": "Bo"}
SHED = {"id": "shed", "text": "The garden shed was painted green in spring.", "speaker": "Ana"}
QUESTION = "What does the harbour crane need?"


class Asked:
    """A service over engines of its own, what it is asked, and why a memory is not in the answer."""

    def __init__(self, service: Service, client: RecallClient, pool: Pool) -> None:
        self.service, self.client, self.pool = service, client, pool
        self.tenant = f"t-{uuid4().hex[:8]}"

    async def stored(self, *memories: dict[str, Any]) -> None:
        """Stores the memories, and waits until index and graph have them."""
        receipt = await self.client.store([{"tenant": self.tenant, **one} for one in memories])
        assert receipt.stored == len(memories), receipt
        await caught_up(self.service, receipt.position or 0)

    async def decided(self, question: str = QUESTION, *, profile: str = PLAIN, **options: Any) -> RecallDecisionV1:
        """The decision on the question, from the log."""
        session = options.pop("session_id", None)
        fields = {"session_id": session} if session else {}
        reply = await self.client.recall(
            question, timeout_s=30, profile=profile, options={"tenant": self.tenant, **options}, **fields
        )
        found: list[RecallDecisionV1] = []

        async def persisted() -> bool:
            found.extend(await DecisionLog(self.pool).get(reply.bundle.stats.decision_id or ""))
            return bool(found)

        await until(persisted, "the decision in the log")
        assert found[0].profile == profile
        return found[0]

    async def lost(self, decision: RecallDecisionV1, memory_id: str) -> WhyNot:
        """Why it is not in the answer."""
        told = await why_not(self.pool, self.service.settings, decision, memory_id)
        assert told is not None
        assert why_not_sentence(told).endswith(".")
        return told


@asynccontextmanager
async def served(redis_url: str, dsn: str, folder: Path) -> AsyncGenerator[Asked]:
    """A service with index and graph in the folder."""
    (folder / "profiles").mkdir()
    for name, changes in PROFILES.items():
        made = Profile.model_validate({"profile": name, **VALUES, **changes})
        (folder / "profiles" / f"{name}.yaml").write_text(dump_profile(made), "utf-8")
    settings = Settings.read(
        redis_url=redis_url,
        postgres_dsn=dsn,
        data_dir=folder / "data",
        profiles_dir=folder / "profiles",
        default_profile=PLAIN,
        prefix=f"why-{uuid4().hex[:6]}:",
        tenants=("*",),
        refresh_ms=100,
        claim_idle_ms=500,
        reply_ttl_s=60,
        deadline_ms=20_000,
        health_port=0,
    )
    async with started_with_client(settings) as (service, client):
        pool = await open_pool(dsn, name="test", max_size=2)
        yield Asked(service, client, pool)
        await pool.close()
