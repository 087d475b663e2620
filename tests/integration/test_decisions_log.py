from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from decision_samples import NOON, decision, insert

from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.log import ANALYST_ROLE, DecisionLog, let_analysts_in
from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, open_pool

# The way out of a role, found by somebody who looked for it: set_config, then a function that runs SQL of its own.
OUT_OF_THE_ROLE = """
WITH a AS MATERIALIZED (SELECT set_config('role', 'none', true) AS x)
SELECT w.word FROM a, LATERAL ts_stat('SELECT to_tsvector(''simple'', text) FROM memories' || left(x, 0)) AS w
"""

MORE_THAN_READING = (
    "DELETE FROM recall_decisions",
    "DELETE FROM recall_decisions RETURNING id",
    "WITH gone AS (DELETE FROM recall_decisions RETURNING id) SELECT * FROM gone",
    "INSERT INTO recall_decisions (id) VALUES (gen_random_uuid()) RETURNING id",
    "EXPLAIN ANALYZE DELETE FROM recall_decisions",
    "CREATE TABLE mine (id int)",
    "DROP TABLE recall_decisions",
    "COMMIT",
    "ROLLBACK",
    "SET ROLE orion",
    "SET transaction_read_only = off",
    "COPY recall_decisions TO '/tmp/out'",
    "SELECT pg_read_file('/etc/hostname')",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE recall_decisions",
    "",
    "-- nothing",
)


@pytest.fixture
def log(pool: Pool) -> DecisionLog:
    return DecisionLog(pool)


async def test_a_decision_comes_back_as_it_was_sent(pool: Pool, log: DecisionLog) -> None:
    sent = decision(intent="because", error=None, entry_id="1-1", trace_id="t", reply_to="recall.reply.v1")
    await insert(pool, sent)
    assert await log.get(sent["id"]) == [RecallDecisionV1.model_validate(sent)]


async def test_absent_optional_fields_get_the_contracts_defaults(pool: Pool, log: DecisionLog) -> None:
    needed = ("id", "corr_id", "profile", "query", "latency_ms", "created_at", "outcome")
    full = decision()
    await insert(pool, {name: full[name] for name in needed})
    (found,) = await log.get(full["id"])
    assert (found.selected_ids, found.dropped, found.deliveries, found.profile_fallback) == ([], {}, 1, False)


async def test_a_correlation_id_of_any_length_finds_all_its_decisions_newest_first(
    pool: Pool, log: DecisionLog
) -> None:
    corr_id = "x" * 100_000
    older = decision(corr_id=corr_id)
    newer = decision(corr_id=corr_id, created_at=(NOON + timedelta(seconds=1)).isoformat())
    await insert(pool, older, newer, decision())
    assert [found.id for found in await log.get(corr_id)] == [newer["id"], older["id"]]


async def test_decisions_are_found_by_the_beginning_of_their_id(pool: Pool, log: DecisionLog) -> None:
    names = [f"{start}-46c0-4014-94f6-ee2cdfb0d3b0" for start in ("875a5172", "875a5199", "975a5172")]
    await insert(pool, *(decision(id=name) for name in names))
    assert await log.ids_starting("875a51", 9) == names[:2]
    assert await log.ids_starting("875a51", 1) == names[:1]
    assert await log.ids_starting("975A5172-46", 9) == names[2:]
    assert await log.ids_starting(names[0], 9) == names[:1]
    for none in ("", "xyz1", "875a5173", f"{names[0]}0"):
        assert await log.ids_starting(none, 9) == []


async def test_of_the_ids_that_begin_so_only_those_of_the_tenant_are_found(pool: Pool, log: DecisionLog) -> None:
    names = [f"{start}-46c0-4014-94f6-ee2cdfb0d3b0" for start in ("a75a5172", "a75a5199")]
    await insert(pool, decision(id=names[0], tenant="acme"), decision(id=names[1], tenant="other"))
    assert await log.ids_starting("a75a51", 9, tenant="acme") == names[:1]
    assert await log.ids_starting(names[1], 9, tenant="acme") == []
    assert await log.ids_starting("a75a51", 9) == names


@pytest.mark.parametrize("unknown", ["nobody", "", "a\x00b", "\ud800", "7d3f1c1e-8f5e-4a53-9d0f-0d8f2f4f5a10"])
async def test_an_unknown_id_finds_nothing(log: DecisionLog, unknown: str) -> None:
    assert await log.get(unknown) == []


async def test_the_latest_decisions_fit_every_condition(pool: Pool, log: DecisionLog) -> None:
    hours = [(NOON + timedelta(hours=hour)).isoformat() for hour in range(4)]
    await insert(
        pool,
        decision(corr_id="a", created_at=hours[0], outcome="empty"),
        decision(corr_id="b", created_at=hours[1], outcome="empty"),
        decision(corr_id="c", created_at=hours[2]),
        decision(corr_id="d", created_at=hours[3], outcome="empty", profile="other"),
    )
    assert [found.corr_id for found in (await log.latest(3))[0]] == ["d", "c", "b"]
    asked, _ = await log.latest(9, outcome="empty", profile="reflect.v1", since=NOON + timedelta(minutes=1))
    assert [found.corr_id for found in asked] == ["b"]


async def test_a_list_goes_on_after_a_decision_also_among_those_of_one_instant(
    pool: Pool, log: DecisionLog
) -> None:
    sent = [decision(verb="reflect" if n % 2 else "plan", tenant="acme" if n < 4 else "other") for n in range(8)]
    await insert(pool, *sent, decision(created_at=(NOON - timedelta(seconds=1)).isoformat(), corr_id="last"))
    whole, _ = await log.latest(99)
    read = [one.id for one in (await log.latest(3))[0]]
    while more := (await log.latest(3, before=UUID(read[-1])))[0]:
        read += [one.id for one in more]
    assert read == [one.id for one in whole]
    chosen = [one for one in whole if (one.verb, one.tenant) == ("plan", "acme")]
    first, _ = await log.latest(1, verb="plan", tenant="acme")
    others, _ = await log.latest(9, verb="plan", tenant="acme", before=UUID(first[0].id))
    assert [*first, *others] == chosen
    assert len(chosen) == 2
    assert (await log.latest(9, before=uuid4()))[0] == []


@pytest.mark.parametrize("odd", ['{"index": true}', '{"index": "nowhere"}', "[]"])
async def test_a_list_leaves_out_what_cannot_be_read_and_says_how_many(
    pool: Pool, log: DecisionLog, odd: str
) -> None:
    await insert(pool, decision(corr_id="whole"), decision(corr_id="odd"))
    await pool.execute("UPDATE recall_decisions SET read_at = $1::text::jsonb WHERE corr_id = 'odd'", odd)
    found, left_out = await log.latest()
    assert ([one.corr_id for one in found], left_out) == (["whole"], 1)
    with pytest.raises(RecordError, match="written by another version"):
        await log.get("odd")


async def test_sql_gives_columns_rows_and_whether_there_is_more(pool: Pool, log: DecisionLog) -> None:
    await insert(pool, decision(), decision(), decision())
    result = await log.run_sql("SELECT outcome, count(*) AS n FROM recall_decisions GROUP BY 1; ")
    assert (result.columns, result.rows, result.truncated) == (("outcome", "n"), (("ok", 3),), False)
    cut = await log.run_sql("SELECT 1 AS a, 2 AS a FROM recall_decisions -- LIMIT nothing", limit=2)
    assert (cut.columns, cut.rows, cut.truncated) == (("a", "a"), ((1, 2), (1, 2)), True)


async def test_sql_that_does_more_than_read_is_refused_and_changes_nothing(pool: Pool, log: DecisionLog) -> None:
    await insert(pool, decision())
    for sql in MORE_THAN_READING:
        with pytest.raises(RecordError, match="the SQL was refused"):
            await log.run_sql(sql)
        assert await pool.fetchval("SELECT count(*) FROM recall_decisions") == 1, sql
        assert await pool.fetchval("SELECT current_user") == "orion", sql


async def test_a_mistake_in_sql_is_told_with_its_line_and_column(log: DecisionLog) -> None:
    with pytest.raises(RecordError, match=r'at line 2, column 6: relation "recall_decision" does not exist'):
        await log.run_sql("SELECT é\nFROM recall_decision".replace("é", "'é'"))


async def test_an_analyst_reads_decisions_and_views_but_no_memories(pool: Pool, log: DecisionLog) -> None:
    await pool.execute("CREATE TABLE private_memories (text text)")
    await pool.execute("CREATE TABLE public.labels (profile text); GRANT SELECT ON public.labels TO orion_analyst")
    assert (await log.run_sql("SELECT * FROM labels JOIN orion_recall.recall_decisions USING (profile)")).rows == ()
    for relation in ("recall_decisions", "recall_by_profile_hour", "recall_by_source", "recall_profiles"):
        await log.run_sql(f"SELECT * FROM {relation}")
    tables = await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'orion_recall'")
    closed = {row["tablename"] for row in tables} - {"recall_decisions", "recall_profiles"}
    assert "private_memories" in closed
    for table in closed:
        with pytest.raises(RecordError, match="permission denied"):
            await log.run_sql(f"SELECT * FROM {table}")


async def test_a_login_that_made_the_role_may_take_it(pool: Pool, log: DecisionLog) -> None:
    result = await log.run_sql("SELECT current_user::text, current_setting('transaction_read_only')")
    assert result.rows == (("orion_analyst", "on"),)


async def test_a_login_that_is_the_analysts_own_cannot_leave_its_role(database: str):
    await let_analysts_in(database)
    as_analyst = database.replace("//orion@", f"//{ANALYST_ROLE}@")
    pool = await open_pool(as_analyst, name="test")
    try:
        log = DecisionLog(pool)
        assert (await log.run_sql("SELECT current_user, session_user")).rows == ((ANALYST_ROLE, ANALYST_ROLE),)
        assert (await log.run_sql("SELECT count(*) FROM recall_decisions")).rows == ((0,),)
        with pytest.raises(RecordError, match="permission denied for table memories"):
            await log.run_sql(OUT_OF_THE_ROLE)
        with pytest.raises(RecordError, match="permission denied"):
            await log.run_sql("SELECT * FROM memories")
    finally:
        await pool.close()
