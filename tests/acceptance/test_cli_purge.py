"""The log's own life from outside: what is kept of a query, and deleting old decisions."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.program import Program

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_decisions_are_purged_by_age_and_hold_no_more_of_a_query_than_they_may(program: Program) -> None:
    hashing = program.with_settings(ORION_QUERY_TEXT="hash", ORION_QUERY_HASH_KEY="hunter2")
    with hashing.started("up", "--json") as running:
        running.ready()
        for _ in range(2):
            assert program.run("ask", "What did my doctor say?").code == 0
        count = "SELECT count(*), min(query) FROM recall_decisions GROUP BY query"
        running.wait_until(
            lambda: [row[0] for row in program.run("decisions", "sql", count, "--json").json["rows"]] == [2],
            "two equal queries in the log",
        )
        ((_, query),) = program.run("decisions", "sql", count, "--json").json["rows"]
        assert query.startswith("blake2b:")
        assert "doctor" not in running.err + running.out
        assert "hunter2" not in running.err + running.out

        assert program.run("decisions", "purge", "--older-than", "30d", "--json").json["count"] == 0
        would = program.run("decisions", "purge", "--older-than", "0m", "--dry-run", "--json").json
        assert (would["dry_run"], would["count"]) == (True, 2)
        went = program.run("decisions", "purge", "--older-than", "0m")
        assert "2 decisions" in went.err
        assert program.run("decisions", "list", "--json").json["decisions"] == []

        refused = program.run("decisions", "purge", "--older-than", "2999-01-01T00:00:00Z")
        assert refused.code == 2
        assert "--older-than" in refused.err
        assert program.run("decisions", "purge").code == 2
        running.signal(signal.SIGTERM)
        assert running.end().code == 0
