"""A day of recalls asked again: as of then under the same profile, and under another one, behind a gate."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from deploy_servers import run_program
from executor import until
from replayed_day import Day
from serving import NoProgress, all_persisted, caught_up

from orion_recall.client import RecallClient
from orion_recall.evaluation.replay.run import Choice, Replayed, ReplayPlan, ReplayRun, replay
from orion_recall.evaluation.vectors import VectorCache
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.serving.service import Service
from orion_recall.shipped import shipped_folder

pytestmark = pytest.mark.slow

_WORK = {
    "Ana": "I work at the harbour office, mostly on permits.",
    "Bilal": "I work in a bakery beside the station.",
    "Chiara": "I work for a small company that restores violins.",
    "Dmitri": "I work nights at the county hospital.",
    "Edda": "I work as a surveyor for the railway.",
    "Farid": "I work in the kitchen of the Blue Heron.",
    "Greta": "I work with bees, up on the ridge.",
    "Hugo": "I work at the swimming pool as a lifeguard.",
    "Ines": "I work for the tax authority, sadly.",
    "Jonas": "I work on a ferry between the islands.",
    "Kaisa": "I work at the museum of glass.",
    "Luca": "I work from home, translating manuals.",
}


_THINGS = "ladder key bucket saw rope drill lamp broom hammer pump spare-wheel brush".split()


@pytest.fixture
async def pool(service: Service) -> AsyncGenerator[Pool]:
    opened = await open_pool(service.settings.dsn or "", name="replay-test", max_size=2)
    yield opened
    await opened.close()


async def asked_again(service: Service, pool: Pool, plan: ReplayPlan) -> ReplayRun:
    await all_persisted(service)
    return await replay(pool, service.settings, plan, NoProgress())


async def test_a_day_asked_again_as_of_then_has_the_answers_of_the_log(
    service: Service, client: RecallClient, pool: Pool, tenant: str, tmp_path: Path
) -> None:
    recalls = 300
    replies = await Day(service, client, pool, tenant).live(recalls)
    plan = ReplayPlan(choice=Choice(tenant=tenant), cache=VectorCache(tmp_path))
    run = await asked_again(service, pool, plan)
    assert len(run.queries) + sum(run.apart.values()) == recalls, run.not_replayable
    rendered = {reply.bundle.stats.decision_id: reply.bundle.rendered for reply in replies}

    def is_same(one: Replayed) -> bool:
        return (one.control.ids, one.control.rendered) == (one.logged.answer.ids, rendered[one.logged.id])

    different = [one for one in run.queries if not is_same(one)]
    told = [
        (one.why, one.logged.query.fragment, rendered[one.logged.id], one.control.rendered) for one in different
    ]
    assert len(different) <= recalls // 300, told
    assert len(set(rendered.values())) > recalls // 3, "answers that are all alike would show nothing"
    # The same on the memories of now is something else: so as of then it was those of then.
    now = await asked_again(service, pool, ReplayPlan(choice=plan.choice, as_of="now", cache=plan.cache))
    assert sum(one.control.ids != one.logged.answer.ids for one in now.queries) > recalls // 4


async def test_questions_that_came_while_changes_were_under_way_say_so_where_they_differ(
    service: Service, client: RecallClient, pool: Pool, tenant: str, tmp_path: Path
) -> None:
    await Day(service, client, pool, tenant).live(30, hurried=True)
    run = await asked_again(service, pool, ReplayPlan(choice=Choice(tenant=tenant), cache=VectorCache(tmp_path)))
    different = [one for one in run.queries if one.control.ids != one.logged.answer.ids]
    assert {one.why for one in different} <= {"changes were under way: the copies had not applied them"}
    assert len(different) <= len(run.queries) // 2
    assert all(one.why is None for one in run.queries if one not in different)


async def test_a_replay_counts_no_access_and_leaves_no_decision(
    service: Service, client: RecallClient, pool: Pool, tenant: str, tmp_path: Path
) -> None:
    replies = await Day(service, client, pool, tenant).live(2)
    shown = sum(len(reply.bundle.items) for reply in replies)

    async def counted() -> int:
        return int(
            await pool.fetchval("SELECT coalesce(sum(count), 0) FROM memory_access WHERE tenant = $1", tenant)
        )

    async def all_counted() -> bool:
        return await counted() == shown

    await until(all_counted, "the accesses of the day itself")
    run = await asked_again(service, pool, ReplayPlan(choice=Choice(tenant=tenant), cache=VectorCache(tmp_path)))
    assert len(run.queries) == 2
    # Those of another recall are written after anything that the replay could have left to be written.
    after = await client.recall("Who is my boss?", options={"tenant": tenant, "k": 1}, timeout_s=60)
    shown += len(after.bundle.items)
    await until(all_counted, "no more than the accesses of one more recall")
    await all_persisted(service)
    held = await pool.fetchval("SELECT count(*) FROM recall_decisions WHERE tenant = $1", tenant)
    assert (len(after.bundle.items), held) == (1, 3)


async def test_erased_memories_and_what_cannot_be_asked_again_are_counted_apart(
    service: Service, client: RecallClient, pool: Pool, tenant: str, tmp_path: Path
) -> None:
    replies = await Day(service, client, pool, tenant).live(4)
    erased = replies[0].bundle.items[0].id
    await client.delete([erased], tenant=tenant, erase=True)
    await all_persisted(service)
    degraded, unknown = (replies[place].bundle.stats.decision_id for place in (2, 3))
    statement = "UPDATE recall_decisions SET outcome = $2, not_replayable = $3 WHERE id = $1::text::uuid"
    await pool.execute(statement, degraded, "degraded", None)
    await pool.execute(statement, unknown, "ok", "words of the query are redacted (ORION_REDACT)")
    run = await asked_again(service, pool, ReplayPlan(choice=Choice(tenant=tenant), cache=VectorCache(tmp_path)))
    assert run.apart == {"degraded": 1}
    assert run.not_replayable == {"words of the query are redacted (ORION_REDACT)": 1}
    first = next(one for one in run.queries if one.logged.id == replies[0].bundle.stats.decision_id)
    assert (first.erased, first.why) == (
        (erased,),
        "memories of the answer were erased since, or are of another store",
    )
    assert erased not in first.control.ids


async def test_the_gate_fails_a_profile_without_speakers_and_passes_one_with_another_comment(
    service: Service, client: RecallClient, pool: Pool, tenant: str, tmp_path: Path
) -> None:
    own = [{"id": name, "speaker": name, "text": text} for name, text in _WORK.items()]
    # Another has all the words of the question, and no answer.
    of_another = [
        {
            "id": f"of {name}",
            "speaker": "Otto",
            "text": f"{name} wants to know where the {thing} is, and does not work.",
        }
        for name, thing in zip(_WORK, _THINGS, strict=True)
    ]
    said = [{**one, "tenant": tenant, "session_id": one["id"]} for one in (*own, *of_another)]
    await caught_up(service, (await client.store(said)).position or 0)
    for name in _WORK:
        options = {"tenant": tenant, "k": 1}
        reply = await client.recall(f"Where does {name} work?", profile="reflect.v1", options=options, timeout_s=60)
        assert [item.id for item in reply.bundle.items] == [name]
        await client.feedback(decision_id=reply.bundle.stats.decision_id, used=[name], tenant=tenant)
    await all_persisted(service)
    shipped = (shipped_folder("profiles") / "reflect.v1.yaml").read_text("utf-8")
    edited = tmp_path / "reflect.v1.yaml"
    gate = ("--fail-under", "overlap@5=.8,used_kept=1", "--fail-over", "empty=+.01", "--min-queries", "10")

    async def judged(text: str, *further: str) -> tuple[int, str]:
        edited.write_text(text, "utf-8")
        env = {"ORION_POSTGRES_DSN": service.settings.dsn or "", "XDG_CACHE_HOME": str(tmp_path)}
        command = ("decisions", "replay", "--tenant", tenant, "--profile", str(edited), *gate, *further)
        code, out, err = await run_program(env, *command)
        return code, out + err

    code, told = await judged(f"# Another comment.\n{shipped}")
    assert code == 0, told
    assert "speaker: 0.65" in shipped
    code, told = await judged(shipped.replace("speaker: 0.65", "speaker: 0"), "--json", "--redact")
    assert code == 1, told
    report = json.loads(told[told.index("{") :])
    assert report["control_against_logged"]["means"]["identical"]["mean"] == 1
    failed = [check["threshold"] for check in report["gate"]["checks"] if not check["passed"]]
    assert failed == ["overlap@5=0.8", "used_kept=1"]
    lost = {name for one in report["changed"] for name in one["used_lost"]}
    assert lost <= set(_WORK)
    assert len(lost) >= 3
    assert "Where does" not in told
    code, told = await judged(shipped, "--class", "meta")
    assert code == 2, told
    assert "0 queries, and 10 are wanted: no decision of the log was chosen under reflect.v1: --profile-of" in told
