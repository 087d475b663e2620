"""`orion-recall decisions show`: all about one decision."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Up

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_one_decision_is_shown_with_what_was_asked_and_the_texts(up: Up) -> None:
    told = up.program.run("ask", "What is wrong with the harbour crane?", "--k", "2", "--json").json["bundle"]
    decision_id = told["stats"]["decision_id"]
    found = up.program.run("decisions", "show", decision_id, "--json")
    for _ in range(50):
        if found.code == 0:
            break
        found = up.program.run("decisions", "show", decision_id, "--json")
    texts = found.json["texts"][decision_id]
    assert texts["why_not"] is None
    assert [one["memory_id"] for one in texts["items"]] == [item["id"] for item in told["items"]]
    assert {one["state"] for one in texts["items"]} == {"unchanged"}
    shown = up.program.with_settings(COLUMNS="160").run("decisions", "show", decision_id).out
    for sign in ("asked options", "index ", "version ", "possible as it was", "texts now"):
        assert sign in shown
    assert texts["items"][0]["text"][:30] in shown
