"""`orion-recall decisions tail` and `show`: what is decided now, and all about one decision."""

from __future__ import annotations

import json
import signal

import pytest

from tests.acceptance.conftest import Up

pytestmark = pytest.mark.acceptance


def test_decisions_are_followed_as_they_are_taken_until_ctrl_c(up: Up) -> None:
    with (
        up.program.started("decisions", "tail", "--json", "--outcome", "ok") as told,
        up.program.started("decisions", "tail", "--slower-than", "0") as shown,
        up.program.started("decisions", "tail", "--tenant", "nobody") as nothing,
    ):
        for running in (told, shown, nothing):
            running.wait_until(lambda running=running: "waiting for decisions" in running.err, "what it waits for")
        asked = up.program.run("ask", "Who oiled the harbour crane?", "--json").json["bundle"]["stats"]
        for running, sign in ((told, asked["decision_id"]), (shown, "harbour crane")):
            running.wait_until(lambda running=running, sign=sign: sign in running.out, sign)
            running.signal(signal.SIGINT)
            ended = running.end()
            assert (ended.code, "error" in ended.err) == (0, False), ended.err
            assert "ended: " in ended.err
        lines = [json.loads(line) for line in told.out.splitlines()]
        assert asked["decision_id"] in [one["id"] for one in lines]
        assert {one["outcome"] for one in lines} == {"ok"}
        assert asked["decision_id"][:8] in shown.out
        assert "outcome" in shown.out.splitlines()[0]
        nothing.signal(signal.SIGINT)
        assert nothing.end().out == ""


def test_a_tail_with_an_unknown_outcome_says_which_there_are(up: Up) -> None:
    wrong = up.program.run("decisions", "tail", "--outcome", "fine")
    assert wrong.code == 2
    assert "invalid, expired, refused, failed, degraded, empty, ok" in wrong.err


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
    for sign in (
        "What was asked, of which data, by which build",
        "k 2",
        "index ",
        "version ",
        "possible as it was",
    ):
        assert sign in shown
    assert "What they say now" in shown
    assert texts["items"][0]["text"][:30] in shown
