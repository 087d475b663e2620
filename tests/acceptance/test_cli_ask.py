"""`orion-recall ask`, `status`, `doctor`, `decisions`, `dead`: a question and everything that can be seen of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest

from orion_recall.bus.connect import connect
from orion_recall.postgres.pool import close_connection, open_connection
from tests.acceptance.conftest import Up
from tests.acceptance.processes import WITH_SERVERS
from tests.acceptance.program import Program

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]
_CHANNELS = ("recall.query.v1", "orion:exec:request:RecallService")


def test_a_question_is_answered_for_people(up: Up) -> None:
    answer = up.program.run("ask", "What is wrong with the harbour crane?", "--k", "3")
    assert answer.code == 0, answer.err
    bullets = [line for line in answer.out.splitlines() if line.startswith("- ")]
    assert len(bullets) == 3
    assert "crane" in bullets[0]
    assert "sql_timeline" not in answer.out
    assert answer.out.splitlines()[-1].startswith("ok, 3 items, ")
    assert answer.err == ""


def test_every_option_reaches_the_worker(up: Up) -> None:
    session = f"s-{uuid4().hex}"
    arguments = (
        "--profile deep.graph.v1 --node athena --tenant default --k 2 --max-tokens 200 --budget low "
        "--scope global --since P300D --until P1D --as-of PT0S --timeout 20 --json"
    )
    answer = up.program.run("ask", "harbour crane", "--session", session, *arguments.split())
    assert answer.code == 0, answer.err
    stats = answer.json["bundle"]["stats"]
    assert stats["profile"] == "deep.graph.v1"
    assert 0 < len(answer.json["bundle"]["items"]) <= 2
    assert not any(item["id"].startswith("today-") for item in answer.json["bundle"]["items"])
    decision = _decision(up, stats["decision_id"])
    assert decision["session_id"] == session
    assert decision["node_id"] == "athena"
    assert decision["scope"] == "global"


def test_why_an_answer_is_what_it_is_is_said_for_people_and_for_programs(up: Up) -> None:
    asked = ("ask", "How do I work safely on the harbour crane?", "--explain", "--k", "4")
    narrow = up.program.with_settings(COLUMNS="80").run(*asked, "--cascade", "--threshold", "0.99", "--depth", "1")
    assert narrow.code == 0, narrow.err
    heads = ("Why these came first", "What was understood", "The cascade through the layers")
    for head in (*heads, "What was handed over", "What was left out", "Where it was searched"):
        assert f"\n{head}" in narrow.out
    explained = narrow.out.partition("Why these came first")[2].rpartition("\n  Stages")[0]
    assert max(len(line.rstrip()) for line in explained.splitlines()) <= 80
    told = up.program.run(*asked, "--no-cascade", "--json").json["bundle"]
    trace = told["stats"]["trace"]
    assert "cascade" not in trace
    kept = [one for one in trace["candidates"] if one["kept"]]
    assert [one["id"] for one in kept] == [item["id"] for item in told["items"]]
    for one in trace["candidates"]:
        assert round(sum(part["share"] for part in one["parts"]), 6) == one["score"]
    assert kept[0]["confidence"]["overall"] == told["stats"]["confidence"]


def test_the_way_of_a_cascade_is_in_the_decision_log(up: Up) -> None:
    options = ("--cascade", "--threshold", "0.99", "--depth", "1", "--json")
    stats = up.program.run("ask", "Who mends the harbour crane?", *options).json["bundle"]["stats"]
    decision = _decision(up, stats["decision_id"])
    assert decision["confidence"] == stats["confidence"]
    sql = f"SELECT layer, depth FROM recall_layers WHERE decision_id = '{stats['decision_id']}' ORDER BY place"
    assert up.program.run("decisions", "sql", sql, "--json").json["rows"] == [
        ["semantic", 0], ["episodic", 1], ["graph", 1], ["procedural", 1],
    ]  # fmt: skip
    assert "The cascade through the layers" in up.program.run("decisions", "show", stats["decision_id"]).out


def test_an_answered_error_is_said_and_fails(up: Up) -> None:
    refused = up.program.run("ask", "hello", "--tenant", "somebody-else", "--json")
    assert refused.code == 1
    assert refused.json["error"]["type"] == "refused"
    assert "not served" in refused.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("ask", "x", "--k", "0"), "options.k"),
        (("ask", "x", "--scope", "everything"), "options.scope"),
        (("ask", "x", "--scope", "session"), "scope session needs --session"),
        (("ask", "x", "--scope", "user"), "scope user needs --user"),
        (("aks", "x"), "Did you mean 'ask'"),
    ],
)
def test_a_wrong_command_line_is_named_in_one_line_and_as_json(
    up: Up, arguments: tuple[str, ...], told: str
) -> None:
    wrong = up.program.run(*arguments, "--json")
    assert wrong.code == 2
    assert told in wrong.json["error"]["message"]
    assert told in wrong.err
    assert "Traceback" not in wrong.err
    assert wrong.err.startswith("error: ")
    assert wrong.err.count("\n") == 1


def test_a_bus_that_is_away_is_named_without_its_password(program: Program) -> None:
    away = program.with_settings(ORION_REDIS_URL="redis://user:hunter2@127.0.0.1:1/0")
    for arguments in (("ask", "hello"), ("status", "--json"), ("dead", "list")):
        ended = away.run(*arguments)
        assert ended.code == 1
        assert "127.0.0.1:1" in ended.out + ended.err
        assert "hunter2" not in ended.out + ended.err


def test_a_postgres_that_is_away_is_named_without_its_password(up: Up) -> None:
    away = up.program.with_settings(
        ORION_REDIS_URL=up.ready["bus_url"], ORION_POSTGRES_DSN="postgresql://user:hunter2@127.0.0.1:1/orion"
    )
    for arguments in (("status", "--json"), ("decisions", "list")):
        ended = away.run(*arguments)
        assert ended.code == 1, ended.out
        assert "hunter2" not in ended.out + ended.err
    assert away.run("status", "--json").json["postgres"]["reachable"] is False


def test_the_status_counts_memories_and_says_how_far_the_copies_are(up: Up) -> None:
    file = up.program.folder / "status.jsonl"
    file.write_text(json.dumps({"id": "status", "text": "the last memory"}))
    assert up.program.run("import", str(file)).code == 0
    found = up.program.run("status", "--json")
    assert found.code == 0, found.out
    status = found.json
    assert status["ok"] is True
    assert status["postgres"]["memories"]["default"] >= 60
    ours = [copy for copy in status["postgres"]["copies"] if _is_ours(up, copy["copy"])]
    assert {copy["kind"] for copy in ours} == {"index", "graph"}
    assert {copy["behind"] for copy in ours} == {0}
    assert status["bus"]["decisions_trimmed"] == 0
    assert status["bus"]["queries"]["consumers"]
    assert "reflect.v1" in status["profiles"]["names"]
    shown = up.program.run("status")
    assert shown.code == 0
    assert "up to date" in shown.out
    assert status["postgres"]["dsn"] in shown.out


def test_what_an_analyst_may_not_read_is_read_at_the_address_that_the_status_names(up: Up) -> None:
    for view in ("recall_never_selected", "recall_texts"):
        refused = up.program.run("decisions", "sql", f"select * from {view}")
        assert refused.code == 1
        assert f"permission denied for view {view}" in refused.err
        assert "with psql and the address that `orion-recall status` prints" in refused.err
    address = up.program.run("status", "--json").json["postgres"]["dsn"]

    async def read() -> object:
        connection = await open_connection(address, name="test", statement_timeout_ms=5000)
        try:
            return await connection.fetchval("SELECT count(*) FROM recall_never_selected WHERE tenant = 'default'")
        finally:
            await close_connection(connection)

    assert isinstance(asyncio.run(read()), int)


def test_decisions_are_listed_shown_and_asked_for_by_sql(up: Up) -> None:
    stats = up.program.run("ask", "buoy 4", "--json").json["bundle"]["stats"]
    decision = _decision(up, stats["decision_id"])
    assert decision["query"] == "buoy 4"
    listed = up.program.run("decisions", "list", "--since", "PT5M", "--outcome", "ok", "--json")
    assert stats["decision_id"] in [one["id"] for one in listed.json["decisions"]]
    shown = up.program.run("decisions", "show", stats["decision_id"])
    assert shown.code == 0
    assert "\nsources\n" in shown.out
    sql = f"SELECT outcome, tokens FROM recall_decisions WHERE id = '{stats['decision_id']}'"
    expected = {"columns": ["outcome", "tokens"], "rows": [["ok", stats["tokens"]]], "truncated": False}
    assert up.program.run("decisions", "sql", sql, "--json").json == expected
    assert "outcome" in up.program.run("decisions", "sql", sql).out


def test_sql_that_gives_no_row_shows_its_columns(up: Up) -> None:
    nothing = up.program.run("decisions", "sql", "SELECT * FROM recall_decisions LIMIT 0")
    assert nothing.code == 0
    assert {"outcome", "tokens"} <= set(nothing.out.split())
    assert "columns of the result" in nothing.out
    assert "there is no row" in nothing.err


def test_sql_that_writes_or_is_wrong_is_refused(up: Up) -> None:
    writes = up.program.run("decisions", "sql", "DELETE FROM recall_decisions", "--json")
    assert writes.code == 1
    assert "refused" in writes.json["error"]["message"]
    wrong = up.program.run("decisions", "sql", "SELECT nothing FROM recall_decisions")
    assert wrong.code == 1
    assert "line 1, column 8" in wrong.err


def test_what_is_not_there_is_exit_code_1(up: Up) -> None:
    decision, history = ("decisions", "show", str(uuid4())), ("memory", "history", "nobody")
    for arguments in (decision, history, ("dead", "show", "1-1"), ("dead", "requeue", "1-1")):
        missing = up.program.run(*arguments, "--json")
        assert missing.code == 1
        assert missing.json["error"]["type"] == "NotFound"


async def test_a_dead_letter_is_listed_shown_and_put_back(up: Up) -> None:
    redis = connect(up.ready["bus_url"])
    corr_id = f"c-{uuid4().hex}"
    broken = {"envelope": json.dumps({"correlation_id": corr_id, "payload": {"fragment": 7}})}
    await redis.xadd("recall.query.v1", broken)  # pyright: ignore[reportArgumentType]
    await redis.aclose()
    letter = _letter(up, corr_id)
    assert "payload.fragment" in letter["reason"]
    assert json.loads(letter["fields"]["envelope"])["correlation_id"] == corr_id
    shown = up.program.run("dead", "show", letter["id"])
    assert shown.code == 0
    assert corr_id in shown.out
    put_back = up.program.run("dead", "requeue", letter["id"], "--json")
    assert put_back.json["requeued"][0]["id"] == letter["id"]
    assert "payload.fragment" in put_back.json["requeued"][0]["problem"]
    assert f"{letter['id']} cannot be read, and will most likely be a dead letter again: payload" in put_back.err
    again = _letter(up, corr_id, other_than=letter["id"])
    assert again["entry_id"] == put_back.json["requeued"][0]["entry_id"]
    assert up.program.run("dead", "list", "--of", "stores", "--json").json == {"letters": []}


def test_it_says_how_many_listen_on_each_channel_and_what_it_means_when_nobody_does(up: Up) -> None:
    looked = up.program.run("doctor", "--json")
    assert looked.code == 0, looked.err
    assert looked.json["channels"] == {"listeners": dict.fromkeys(_CHANNELS, 1), "error": None}
    quiet = up.program.with_settings(ORION_QUERY_CHANNELS="somewhere.else,recall.query.v1").run("doctor")
    assert quiet.code == 0, quiet.err
    assert "somewhere.else  nobody listens: what is published here now is lost" in quiet.out
    assert "recall.query.v1  1 listening" in quiet.out


def test_it_says_what_bus_and_postgres_are_and_that_all_is_well(up: Up) -> None:
    servers = up.program.run("doctor", "--json").json["servers"]
    assert [one["problem"] for one in servers] == [None] * len(servers)
    found = {one["name"]: one["found"] for one in servers}
    assert {"descriptors", "bus", "clock", "Postgres", "schema"} <= found.keys()
    assert found["bus"].startswith("Valkey ")
    assert "connections" in found["Postgres"]
    assert "that is this version's" in found["schema"]
    assert "of that of the bus" in found["clock"]


def test_status_says_where_each_worker_listens(up: Up) -> None:
    (worker,) = up.program.run("status", "--json").json["bus"]["workers"]
    assert worker["channels"] == sorted(_CHANNELS)
    assert "orion:exec:request:RecallService, recall.query.v1" in up.program.run("status").out


def test_a_bus_that_is_away_is_said(up: Up) -> None:
    away = up.program.with_settings(ORION_REDIS_URL="redis://127.0.0.1:1/0").run("doctor", "--json")
    assert away.code == 1
    assert "127.0.0.1:1" in away.json["channels"]["error"]


def test_one_decision_is_shown_with_what_was_asked_and_the_texts(up: Up) -> None:
    told = up.program.run("ask", "What is wrong with the harbour crane?", "--k", "2", "--json").json["bundle"]
    decision_id = told["stats"]["decision_id"]
    _decision(up, decision_id)
    texts = up.program.run("decisions", "show", decision_id, "--json").json["texts"][decision_id]
    assert texts["why_not"] is None
    assert [one["memory_id"] for one in texts["items"]] == [item["id"] for item in told["items"]]
    assert {one["state"] for one in texts["items"]} == {"unchanged"}
    shown = up.program.with_settings(COLUMNS="160").run("decisions", "show", decision_id).out
    for sign in ("asked options", "index ", "version ", "possible as it was", "texts now"):
        assert sign in shown
    assert texts["items"][0]["text"][:30] in shown


def _decision(up: Up, decision_id: str) -> dict[str, object]:
    """The decision, once the sink has written it."""
    for _ in range(50):
        found = up.program.run("decisions", "show", decision_id, "--json")
        if found.code == 0:
            return found.json["decisions"][0]
    raise AssertionError(f"no decision {decision_id}")


def _letter(up: Up, corr_id: str, other_than: str = "") -> dict[str, Any]:
    for _ in range(50):
        letters = up.program.run("dead", "list", "--json").json["letters"]
        for letter in letters:
            if letter["correlation_id"] == corr_id and letter["id"] != other_than:
                return letter
    raise AssertionError(f"no dead letter of {corr_id}")


def _is_ours(up: Up, copy: str) -> bool:
    """Whether a copy is in the program's folder, or on a server: those are everybody's."""
    return copy.endswith(str(up.program.data)) or (WITH_SERVERS and copy.startswith("http"))
