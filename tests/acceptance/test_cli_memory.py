"""`orion-recall memory …`: what is remembered, changed and deleted from the command line."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.acceptance.conftest import Up

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_a_memory_is_stored_changed_looked_at_and_deleted(up: Up) -> None:
    name = f"cli-{uuid4().hex[:8]}"
    run = up.program.run
    stored = run("memory", "store", name, "--text", "The zeppelin is moored in Umbra.", "--set", "speaker=Bo")
    assert (stored.code, stored.out.strip()) == (0, "1 stored"), stored.err
    assert run("memory", "store", name, "--text", "Something else.").code == 1
    text = ("--text", "The zeppelin is moored in Zephyria.")
    changed = run("memory", "update", name, *text, "--actor", "bo", "--json")
    assert (changed.code, changed.json["updated"], changed.json["pending"]) == (0, 1, False)
    late = run("memory", "update", name, "--set", "title=x", "--if-version", "1")
    assert late.code == 1
    assert "version 2" in late.err
    found = run("ask", "Where is the zeppelin moored?", "--json").json["bundle"]["rendered"]
    assert "Zephyria" in found
    assert "Umbra" not in found
    shown = run("memory", "history", name)
    assert "The zeppelin is moored in Umbra. -> The zeppelin is moored in Zephyria." in " ".join(shown.out.split())
    steps = run("memory", "history", name, "--json").json["steps"]
    assert [(step["op"], step["actor"]) for step in steps] == [("add", None), ("update", "bo")]
    gone = run("memory", "delete", name, "cli-nobody", "--json")
    assert (gone.code, gone.json["deleted"], gone.json["missing"]) == (1, 1, 1)
    assert name not in run("ask", "Where is the zeppelin moored?", "--json").out


def test_memories_are_listed_searched_and_shown(up: Up) -> None:
    run, word = up.program.run, f"gannet{uuid4().hex[:6]}"
    names = [f"{word}-{letter}" for letter in "ab"]
    for name in names:
        text = f"The {word} nests on the lighthouse."
        assert run("memory", "store", name, "--text", text, "--set", "tags=bird").code == 0
    listed = run("memory", "list", "--tag", "bird", "--limit", "1")
    assert names[1] in listed.out
    assert "--limit" in listed.err
    assert "nests" in run("memory", "list", f"{word} nested").out
    unknown = run("memory", "delete", word, "--json")
    assert (unknown.code, unknown.json["missing"]) == (1, 1)
    gone = run("memory", "delete", names[0])
    assert (gone.code, gone.out.strip()) == (0, "1 deleted")
    assert "deleted at" in run("memory", "show", names[0]).out
    assert run("memory", "history", names[0]).code == 0
    assert run("memory", "list", word, "--json").json["memories"][0]["id"] == names[1]


def test_a_sentence_is_remembered_once(up: Up) -> None:
    session = f"s-{uuid4().hex[:8]}"
    said = ("memory", "remember", "The kettle whistles.")
    arguments = (*said, "--speaker", "Ana", "--session", session, "--tag", "tea")
    first, again = up.program.run(*arguments), up.program.run(*arguments, "--json")
    assert (first.code, again.code) == (0, 0), again.err
    assert first.out.strip() == again.json["id"]
    assert "before" in again.err


def test_what_matches_is_shown_first_and_changed_when_that_is_confirmed(up: Up) -> None:
    session, run = f"s-{uuid4().hex[:8]}", up.program.run
    for number in range(3):
        assert run("memory", "remember", f"Lamp {number} is lit.", "--session", session).code == 0
    where = ("--where", f"session_id={session}", "--where", "text=lamps")
    for unsure in (("--json",), ()):
        asked = run("memory", "updateq", *where, "--set", "tags=light", *unsure)
        assert asked.code == 2, asked.err
        assert "--yes" in asked.err
    changed = run("memory", "updateq", *where, "--set", "tags=light", "--yes", "--json")
    assert (changed.code, changed.json["updated"], changed.json["matched"]) == (0, 3, 3)
    gone = run("memory", "deleteq", "--where", f"session_id={session}", "--where", "tags=light", "--yes", "--erase")
    assert (gone.code, gone.out.strip()) == (0, "3 deleted")
    nothing = run("memory", "deleteq", *where, "--yes", "--json")
    assert (nothing.code, json.loads(nothing.out)) == (1, {"matched": 0})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("update", "m"), "nothing to change"),
        (("store", "m"), "--text"),
        (("deleteq", "--where", "since=someday"), "--where since"),
    ],
)
def test_wrong_use_is_said_and_nothing_is_sent(up: Up, arguments: tuple[str, ...], told: str) -> None:
    done = up.program.run("memory", *arguments)
    assert done.code == 2
    assert told in done.err
