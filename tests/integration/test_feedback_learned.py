"""What callers say of recalls, read beside the decisions it is about, and weights that are learned from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from decision_samples import NOON, decision, envelope
from deploy_servers import run_program
from executor import until
from serving import caught_up

from orion_recall.client import RecallClient
from orion_recall.contracts import MemoryV1, RecallReplyV1
from orion_recall.decisions.feedback import FeedbackLog, JudgedRecall
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Connection, Pool, open_pool
from orion_recall.profile.reading import load_profile
from orion_recall.serving.service import Service
from orion_recall.shipped import shipped_folder
from tests.stand_ins.memory_changes import MemoryChanges

INSERT = files("orion_recall.decisions").joinpath("insert.sql").read_text("utf-8")
THINGS = ("crane", "ferry", "lighthouse", "boat shed", "gearbox", "anchor", "chapel", "bakery", "tram", "quay")


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(database, name="test", max_size=2)
    yield opened
    await opened.close()


async def _decide(pool: Pool, **changes: Any) -> str:
    """A decision of tenant `default` that showed m1 and m2; its id."""
    made = decision(**changes)
    await pool.execute(INSERT, [envelope(made)])
    return made["id"]


async def _say(pool: Pool, *, tenant: str = "default", at: Any = NOON, **fields: Any) -> None:
    columns = {"tenant": tenant, "at": at, "entry_id": uuid4().hex, **fields}
    places = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
    await pool.execute(f"INSERT INTO recall_feedback ({', '.join(columns)}) VALUES ({places})", *columns.values())


async def _read(pool: Pool, **wanted: Any) -> list[tuple[JudgedRecall | None, int]]:
    return [one async for one in FeedbackLog(pool).read(**wanted)]


async def _ids(pool: Pool, **wanted: Any) -> list[str | None]:
    return [one and one.decision_id for one, _ in await _read(pool, **wanted)]


async def test_feedback_comes_with_its_decision_in_the_order_of_questions(pool: Pool) -> None:
    later = await _decide(pool, created_at=(NOON + timedelta(hours=1)).isoformat(), corr_id="c-later")
    first = await _decide(pool, corr_id="c-first", scope="user", user_id="ana", intent="repairs")
    await Record(pool).store([compose(MemoryV1(id=name, text=f"about {name}"), "default") for name in ("m1", "m2")])
    await MemoryChanges(pool).delete("default", ["m2"])
    await _say(pool, corr_id="c-later", used=["m2"])
    await _say(pool, decision_id=first.upper(), used=["m1"])
    await _say(pool, decision_id=first, corr_id="c-later", wrong=["m1"], note="told twice")
    (one, messages), (other, _) = await _read(pool)
    assert one is not None and other is not None
    assert (one.decision_id, messages, other.decision_id) == (first, 2, later)
    assert [(said.used, said.wrong) for said in one.feedback] == [(("m1",), ()), ((), ("m1",))]
    assert (one.asked_at, one.query, one.scope, one.user_id) == (NOON, "what do we remember?", "user", "ana")
    assert (one.session_id, one.intent, one.correlation_id) == ("s-1", "repairs", "c-first")
    assert (one.shown, one.live) == (("m1", "m2"), frozenset(("m1",)))


async def test_of_a_query_that_was_sent_again_the_last_decision_counts_and_no_shadow(pool: Pool) -> None:
    await _decide(pool)
    again = await _decide(pool, created_at=(NOON + timedelta(seconds=5)).isoformat())
    shadow = await _decide(pool, created_at=(NOON + timedelta(seconds=9)).isoformat(), shadow_of=again)
    await _say(pool, corr_id="c-1", used=["m1"])
    assert await _ids(pool) == [again]
    await _say(pool, decision_id=shadow, used=["m1"])
    assert await _ids(pool) == [again, None]


async def test_nobody_judges_what_another_tenant_was_shown(pool: Pool) -> None:
    ours = await _decide(pool, tenant="acme")
    for told in ({"decision_id": ours}, {"corr_id": "c-1"}):
        await _say(pool, tenant="other", used=["m1"], **told)
    assert await _ids(pool) == [None, None]
    await _say(pool, tenant="acme", decision_id=ours, used=["m1"])
    assert await _ids(pool) == [ours, None, None]
    assert await _ids(pool, tenant="acme") == [ours]
    assert (await FeedbackLog(pool).count(), await FeedbackLog(pool).count(tenant="acme")) == (3, 1)


async def test_feedback_is_taken_from_a_time_on_and_what_is_no_decisions_id_is_none(pool: Pool) -> None:
    first = await _decide(pool)
    await _say(pool, decision_id=first, used=["m1"])
    await _say(pool, decision_id="'; DROP TABLE recall_feedback; --", used=["m1"], at=NOON + timedelta(days=1))
    await _say(pool, decision_id=str(uuid4()), used=["m1"], at=NOON + timedelta(days=1))
    assert await _ids(pool) == [first, None, None]
    assert await _ids(pool, since=NOON + timedelta(hours=1)) == [None, None]


async def test_a_log_of_many_pages_is_read_whole(pool: Pool) -> None:
    await pool.execute(INSERT, [envelope(decision(corr_id=f"c-{number}")) for number in range(700)])
    await pool.execute(
        "INSERT INTO recall_feedback (tenant, corr_id, used, entry_id) "
        "SELECT 'default', 'c-' || n % 700, ARRAY['m1'], n::text FROM generate_series(0, 1399) AS n"
    )
    found = await _read(pool)
    assert len({one.decision_id for one, _ in found if one}) == len(found) == 700
    assert {messages for _, messages in found} == {2}


async def _answered(
    client: RecallClient, connection: Connection, tenant: str
) -> list[tuple[str, RecallReplyV1, str]]:
    """Every question with its reply, and the correlation id under which the log has it."""
    questions = [f"Is Ana content with the colour of the {thing}?" for thing in THINGS]
    options = {"tenant": tenant, "k": 8}
    replies = await asyncio.gather(
        *(client.recall(question, timeout_s=60, profile="reflect.v1", options=options) for question in questions)
    )

    async def logged() -> bool:
        counted = await connection.fetchval("SELECT count(*) FROM recall_decisions WHERE tenant = $1", tenant)
        return counted == len(questions)

    await until(logged, "the decisions")
    rows = await connection.fetch("SELECT id::text, corr_id FROM recall_decisions WHERE tenant = $1", tenant)
    correlations = {row["id"]: row["corr_id"] for row in rows}
    found: list[tuple[str, RecallReplyV1, str]] = []
    for question, reply in zip(questions, replies, strict=True):
        decided = reply.bundle.stats.decision_id
        assert decided is not None
        found.append((question, reply, correlations[decided]))
    return found


@pytest.mark.slow
async def test_weights_are_learned_from_what_callers_used(
    service: Service,
    client: RecallClient,
    service_database: Connection,
    tenant: str,
    tmp_path: Path,
) -> None:
    # Bo's words are nearer to the questions; only who said it tells that Ana's are what was asked for.
    told = [
        {"id": f"{who}-{place}", "tenant": tenant, "speaker": who, "text": text.format(thing)}
        for place, thing in enumerate(THINGS)
        for who, text in (
            ("Ana", "They want to paint the {} green, and I would rather have it blue."),
            ("Bo", "Is Ana content with the colour of the {}? I did not listen."),
        )
    ]
    receipt = await client.store(told)
    assert receipt.stored == len(told), receipt
    await caught_up(service, receipt.position or 0)
    for place, (_, reply, correlation_id) in enumerate(await _answered(client, service_database, tenant)):
        shown = {item.id for item in reply.bundle.items}
        assert {f"Ana-{place}", f"Bo-{place}"} <= shown
        about: dict[str, Any] = (
            {"correlation_id": correlation_id} if place % 2 else {"decision_id": reply.bundle.stats.decision_id}
        )
        said = await client.feedback(tenant=tenant, used=[f"Ana-{place}"], wrong=[f"Bo-{place}"], **about)
        assert said.recorded
    memories, queries, tuned = (
        str(tmp_path / name) for name in ("memories.jsonl", "queries.jsonl", "tuned.v1.yaml")
    )
    record = {"ORION_POSTGRES_DSN": service.settings.dsn or "", "ORION_DATA_DIR": str(tmp_path / "none")}

    code, out, err = await run_program(record, "eval", "feedback", "--out", queries, "--tenant", tenant, "--json")
    assert code == 0, err
    counted = json.loads(out)
    assert (counted["queries"], counted["used"], counted["wrong"]) == (len(THINGS),) * 3
    assert counted["passed_over"] > 0
    assert counted["left_out"] == {}
    code, _, err = await run_program(record, "memory", "export", memories, "--tenant", tenant)
    assert code == 0, err
    given = ("--memories", memories, "--queries", queries, "--profile", "reflect.v1", "--no-cache")
    code, out, err = await run_program({}, "eval", "tune", *given, "--out", tuned, "--k", "1", "--json")
    assert code == 0, err
    learned = json.loads(out)
    assert learned["fed_back"] == len(THINGS)
    before = load_profile(shipped_folder("profiles") / "reflect.v1.yaml").ranking.model_dump()
    after = load_profile(Path(tuned)).ranking.model_dump()
    assert after == learned["weights"]
    assert after["speaker"] / sum(after.values()) > 1.5 * before["speaker"] / sum(before.values())
    assert after["late"] / sum(after.values()) < before["late"] / sum(before.values())
    recall = {one["name"]: one["scores"]["means"]["recall@1"]["mean"] for one in learned["figures"]}
    assert recall["learned, held out"] > recall["reflect.v1"]


@pytest.mark.slow
async def test_without_feedback_the_command_says_what_to_do_and_leaves_the_file(
    service: Service, client: RecallClient, service_database: Connection, tenant: str, tmp_path: Path
) -> None:
    out = tmp_path / "queries.jsonl"
    out.write_text("as it was\n")
    record = {"ORION_POSTGRES_DSN": service.settings.dsn or "", "ORION_DATA_DIR": str(tmp_path / "none")}
    command = ("eval", "feedback", "--out", str(out), "--tenant", tenant)
    code, _, err = await run_program(record, *command)
    assert (code, "client.feedback(decision_id=" in err) == (1, True), err
    of_a_decision_that_was_deleted = (
        "INSERT INTO recall_feedback (tenant, corr_id, used) VALUES ($1, 'old', '{m1}')"
    )
    await service_database.execute(of_a_decision_that_was_deleted, tenant)
    code, _, err = await run_program(record, *command)
    assert (code, "1 left out: the decision is not in the log" in err) == (1, True), err
    await service_database.execute(of_a_decision_that_was_deleted, tenant)
    code, shown, _ = await run_program(record, *command, "--since", "2099-01-01T00:00:00Z", "--json")
    assert (code, json.loads(shown)["error"]["type"]) == (1, "NotFound")
    assert out.read_text() == "as it was\n"
    assert [path.name for path in tmp_path.iterdir()] == ["queries.jsonl"]
