from __future__ import annotations

from pathlib import Path

from orion_recall.schemas import as_markdown, setting_rows, unknown_variables

ROWS = {row.variable: row for row in setting_rows()}


def test_defaults_are_written_as_the_environment_would_say_them() -> None:
    defaults = {name: row.default for name, row in ROWS.items()}
    assert defaults["ORION_DATA_DIR"] == ".orion"
    assert defaults["ORION_REPLY_STREAMS"] == "recall.reply.v1,recall.reply.v1:*"
    assert defaults["ORION_CONTENT_CAPTURE"] == "false"
    assert defaults["ORION_DEADLINE_MS"] == "2000"
    # Those that depend on the machine, and those that are none.
    assert (defaults["ORION_INSTANCE"], defaults["ORION_REDIS_URL"]) == ("", "")


def test_what_may_hold_a_password_is_marked() -> None:
    assert {"ORION_REDIS_URL", "ORION_POSTGRES_DSN", "ORION_ANALYST_DSN"} <= {
        row.variable for row in ROWS.values() if row.is_secret
    }
    assert not ROWS["ORION_DATA_DIR"].is_secret
    assert "(none): record, timeline and decision log **secret**" in as_markdown(ROWS.values())


def test_a_name_that_nothing_reads_is_found_whatever_its_case() -> None:
    given = ["ORION_REDIS_URL", "orion_tenants", "ORION_REDIS_ULR", "PATH", "Orion_Deadline"]
    assert unknown_variables(given) == ["ORION_REDIS_ULR", "Orion_Deadline"]


def test_the_reference_in_deploy_is_up_to_date() -> None:
    written = (Path(__file__).parents[3] / "deploy/ENVIRONMENT.md").read_text("utf-8")
    assert written == as_markdown(setting_rows()), "run `make environment`"
