"""`orion-recall import`: what it counts, what it refuses, and how it goes on."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.program import Program

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def written(up: Up, *lines: object) -> Path:
    file = up.program.folder / f"{uuid4().hex}.jsonl"
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return file


def test_what_was_imported_can_be_asked_for_at_once(up: Up) -> None:
    body = {"said": "The quokka sleeps in the boiler room."}
    file = written(up, {"key": "quokka", "body": body, "when": "2026-01-01T10:00:00", "mood": "calm"})
    mapping = "id=key,text=body.said,occurred_at=when"
    arguments = ("import", str(file), "--map", mapping, "--timezone", "Europe/Oslo")
    done = up.program.run(*arguments, "--json")
    assert done.code == 0, done.err
    assert (done.json["stored"], done.json["copies"]) == (1, "caught_up")
    [item] = up.program.run("ask", "Where does the quokka sleep?", "--json", "--k", "1").json["bundle"]["items"]
    assert (item["id"], item["ts"]) == ("quokka", 1767258000.0)
    again = up.program.run(*arguments)
    assert again.code == 0
    assert "0 stored, 1 unchanged" in again.out


def test_bad_lines_are_named_and_the_good_ones_are_stored(up: Up) -> None:
    name = uuid4().hex
    up.program.run("import", str(written(up, {"id": f"{name}-held", "text": "one thing"})))
    file = written(
        up,
        {"id": f"{name}-good", "text": "fine"},
        "not json",
        {"id": f"{name}-held", "text": "another thing"},
        {"id": f"{name}-bare"},
    )
    done = up.program.run("import", str(file), "--no-wait", "--json")
    assert done.code == 1
    counts = {key: done.json[key] for key in ("read", "stored", "conflict", "rejected")}
    assert counts == {"read": 4, "stored": 1, "conflict": 1, "rejected": 2}
    assert {problem["line"] for problem in done.json["problems"]} == {2, 3, 4}
    shown = up.program.run("import", str(file))
    assert shown.code == 1
    assert f"{file}:2: not JSON" in shown.err


def test_csv_and_a_json_array_are_imported_and_another_format_is_named_once(up: Up) -> None:
    name = uuid4().hex
    table = up.program.folder / f"{name}.csv"
    table.write_text(f"key;body;author\n{name}-1;The puffin is home.;Ana\n{name}-2;\n", encoding="utf-8")
    done = up.program.run("import", str(table))
    assert done.code == 1
    assert f"{table}: 2 rows read, 1 stored" in done.out
    assert f"{table}, row 3: " in done.err
    array = up.program.folder / f"{name}.json"
    array.write_text(json.dumps([{"id": f"{name}-3", "content": "The puffin sleeps."}], indent=2), encoding="utf-8")
    done = up.program.run("import", str(array), "--json")
    assert (done.code, done.json["stored"], done.json["copies"]) == (0, 1, "caught_up"), done.err
    page = up.program.folder / f"{name}.xml"
    page.write_text("<?xml version='1.0'?>\n" + "<memory/>\n" * 9, encoding="utf-8")
    refused = up.program.run("import", str(page))
    assert (refused.code, refused.err.count("format is not imported"), refused.err.count("\n")) == (2, 1, 1)


def test_an_import_that_was_interrupted_is_run_again(up: Up) -> None:
    name = uuid4().hex
    # One memory again and again: much to send and little to index.
    file = written(up, *[{"id": name, "text": f"The otter {name} swims."}] * 3000)

    def stored() -> bool:
        return up.program.run("memory", "show", name).code == 0

    with up.program.started("import", str(file), "--no-wait") as running:
        running.wait_until(stored, "its first batch")
        running.signal(signal.SIGINT)
        ended = running.end()
    assert "Traceback" not in ended.err
    done = up.program.run("import", str(file), "--no-wait", "--json")
    assert (done.code, done.json["read"], done.json["stored"]) == (0, 3000, 0), done.err


def chatgpt_conversation(name: str, messages: int) -> dict[str, object]:
    """A conversation as ChatGPT exports it: a root, a system prompt, and answers that were regenerated once."""
    mapping: dict[str, object] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    parent = "root"
    for number in range(-1, messages):
        role = "system" if number < 0 else ("user", "assistant")[number % 2]
        for node in ([f"old-{number}"] if role == "assistant" else []) + [f"node-{number}"]:
            message = {
                "id": node, "author": {"role": role}, "create_time": 1772366400.0 + number, "metadata": {},
                "content": {"content_type": "text", "parts": [f"The heron {name} stands on stone {number}."]},
            }  # fmt: skip
            mapping[node] = {"id": node, "parent": parent, "children": [], "message": message}
        parent = f"node-{number}"
    return {"id": name, "title": "Herons", "mapping": mapping, "current_node": parent}


def test_an_export_of_ten_thousand_messages_is_interrupted_and_resumed(program: Program) -> None:
    file = program.folder / "conversations.json"
    file.write_text(json.dumps([chatgpt_conversation(f"c{number}", 500) for number in range(20)]), "utf-8")
    checked = program.run("import", str(file), "--dry-run", "--json")
    assert (checked.code, checked.json["read"], checked.json["stored"]) == (0, 10_020, 0), checked.err

    def stored() -> bool:
        return program.run("memory", "show", "chatgpt:c0:node-0").code == 0

    # An `up` of its own: to index it all takes minutes, which no other test is to wait for.
    with program.started("up", "--json") as up:
        up.ready()
        assert not stored()
        with program.started("import", str(file), "--no-wait") as running:
            running.wait_until(stored, "its first batch")
            running.signal(signal.SIGINT)
            ended = running.end()
        assert "Traceback" not in ended.err
        resumed, again = (program.run("import", str(file), "--no-wait", "--json").json for _ in range(2))
        up.signal(signal.SIGTERM)
        assert up.end().code == 0
    names = ("read", "conflict", "rejected", "left_out", "format")
    assert [resumed[one] for one in names] == [10_020, 0, 0, 20, "ChatGPT export"]
    assert resumed["unchanged"] > 0
    assert resumed["stored"] > 0
    assert resumed["unchanged"] + resumed["stored"] == 10_000
    assert (again["stored"], again["unchanged"]) == (0, 10_000)


def test_a_naive_time_a_missing_file_and_a_wrong_mapping_are_usage_errors(up: Up) -> None:
    naive = written(up, {"id": "n", "text": "x", "occurred_at": "2026-01-01T10:00:00"})
    for arguments, told in (
        ((str(naive),), "--timezone"),
        ((str(up.program.folder / "none.jsonl"),), "none.jsonl"),
        ((str(naive), "--map", "text"), "--map"),
        ((str(naive), "--timezone", "Europe/Olso"), "Europe/Oslo"),
    ):
        wrong = up.program.run("import", *arguments, "--json")
        assert wrong.code == 2
        assert told in wrong.json["error"]["message"]


def test_memories_of_a_tenant_that_is_not_served_are_rejected(up: Up) -> None:
    file = written(up, {"id": uuid4().hex, "text": "x"})
    done = up.program.run("import", str(file), "--tenant", "nobody", "--json")
    assert done.code == 1
    assert done.json["rejected"] == 1
    assert "does not serve" in done.json["problems"][0]["reason"]


def test_a_worker_without_a_record_refuses_the_file(up: Up) -> None:
    settings = {"ORION_REDIS_URL": up.ready["bus_url"], "ORION_PREFIX": "alone:"}
    alone = Program(up.program.folder, {**settings, "ORION_DATA_DIR": str(up.program.folder / "alone")})
    file = written(up, {"id": "a", "text": "x"})
    with alone.started("worker", "--json") as running:
        running.ready()
        refused = alone.run("import", str(file), "--json")
        assert refused.code == 1
        assert "ORION_POSTGRES_DSN" in refused.json["error"]["message"]
        running.signal(signal.SIGTERM)
        assert running.end().code == 0
