"""Exports of other systems: recognised, read in their shapes, the same twice, and refused where they are broken."""

from __future__ import annotations

import itertools
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.errors import ImportFileError
from orion_recall.memory.transfer import json_values
from orion_recall.memory.transfer.importer import (
    ImportBatch,
    ImportMapping,
    ImportSummary,
    read_batches,
    read_mapping,
)

PLAIN = ImportMapping()


def batches_of(folder: Path, content: Any, name: str = "conversations.json") -> list[ImportBatch]:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return [*read_batches(file, PLAIN, called=name)]


def read(folder: Path, content: Any, name: str = "conversations.json") -> list[dict[str, Any]]:
    batches = batches_of(folder, content, name)
    assert [str(problem) for batch in batches for problem in batch.problems] == []
    return [memory for batch in batches for memory in batch.memories]


def problems(folder: Path, content: Any) -> list[str]:
    return [str(problem) for batch in batches_of(folder, content) for problem in batch.problems]


def summary_of(path: Path) -> ImportSummary:
    summary = ImportSummary(file=path.name)
    for batch in read_batches(path, PLAIN, called=path.name):
        summary.add(batch, None)
    return summary


# ChatGPT


def node(name: str, parent: str | None, role: str = "user", text: str = "", **message: Any) -> dict[str, Any]:
    said: dict[str, Any] = {
        "id": name, "author": {"role": role, "name": None, "metadata": {}}, "create_time": None,
        "content": {"content_type": "text", "parts": [text]}, "weight": 1.0, "metadata": {}, "recipient": "all",
    }  # fmt: skip
    return {"id": name, "parent": parent, "children": [], "message": {**said, **message}}


def conversation(*nodes: dict[str, Any], current: str | None = None, **more: Any) -> dict[str, Any]:
    root: dict[str, Any] = {"id": "root", "message": None, "parent": None, "children": []}
    return {
        "title": "Crane", "create_time": 1772366400.5, "conversation_id": "c1", "id": "c1", "plugin_ids": None,
        "mapping": {one["id"]: one for one in (root, *nodes)}, "current_node": current or nodes[-1]["id"], **more,
    }  # fmt: skip


CHAT = conversation(
    node("s", "root", "system", "You are a helpful assistant.", weight=0),
    node("hidden", "s", "user", "profile", metadata={"is_visually_hidden_from_conversation": True}),
    node("u", "hidden", "user", "Is the crane repaired?", create_time=1772366401.25),
    node("old", "u", "assistant", "I do not know.", create_time=1772366402.0),
    node("new", "u", "assistant", "It is, since March.", create_time=1772366403.0),
    node("think", "new", "assistant", content={"content_type": "thoughts", "thoughts": [{"content": "hm"}]}),
    node("code", "think", "assistant", content={"content_type": "code", "language": "python", "text": "1 + 1"}),
    node("out", "code", "tool", author={"role": "tool", "name": "python"},
         content={"content_type": "execution_output", "text": "2"}),
    node("picture", "out", "user",
         content={"content_type": "multimodal_text", "parts": [{"asset_pointer": "file-service://x"}, "And now?"]}),
    node("empty", "picture", "assistant", ""),
)  # fmt: skip


def test_the_current_branch_of_a_chatgpt_conversation_is_read_in_order(tmp_path: Path) -> None:
    assert read(tmp_path, [CHAT]) == [
        {
            "id": "chatgpt:c1:u", "session_id": "c1", "title": "Crane", "text": "Is the crane repaired?",
            "speaker": "user", "occurred_at": 1772366401.25, "source": "chatgpt",
        },
        {
            "id": "chatgpt:c1:new", "session_id": "c1", "title": "Crane", "text": "It is, since March.",
            "speaker": "assistant", "occurred_at": 1772366403.0, "source": "chatgpt",
        },
        {
            "id": "chatgpt:c1:code", "session_id": "c1", "title": "Crane", "text": "1 + 1", "speaker": "assistant",
            "occurred_at": 1772366403.0, "source": "chatgpt",
        },
        {
            "id": "chatgpt:c1:out", "session_id": "c1", "title": "Crane", "text": "2", "speaker": "python",
            "occurred_at": 1772366403.0, "source": "chatgpt", "metadata": {"role": "tool"},
        },
        {
            "id": "chatgpt:c1:picture", "session_id": "c1", "title": "Crane", "text": "And now?", "speaker": "user",
            "occurred_at": 1772366403.0, "source": "chatgpt",
        },
    ]  # fmt: skip


def test_the_summary_names_the_format_and_counts_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "conversations.json").write_text(json.dumps([CHAT]), "utf-8")
    summary = summary_of(tmp_path / "conversations.json")
    assert (summary.read, summary.left_out, summary.format.name) == (9, 4, "ChatGPT export")
    assert summary.describe().startswith("conversations.json (ChatGPT export): 9 messages read, 0 stored")
    assert summary.describe().endswith(", 4 left out (system, hidden or empty)")


def test_without_a_current_node_the_last_leaf_is_current(tmp_path: Path) -> None:
    chat = conversation(node("a", "root", text="one"), node("b", "a", text="two"), node("c", "a", text="three"))
    del chat["current_node"]
    assert [one["text"] for one in read(tmp_path, [chat])] == ["one", "three"]


@pytest.mark.parametrize(
    ("chat", "why"),
    [
        (conversation(node("a", "b", text="x"), node("b", "a", text="y")),
         "conversation 2: mapping: the parents of node 'b' lead back to it"),
        ({**conversation(node("a", "b", text="x"), node("b", "a", text="y")), "current_node": None}, "lead back"),
        (conversation(node("a", "a", text="x")), "the parents of node 'a' lead back to it"),
        (conversation(node("a", "root", text="x"), current="z"), "there is no node 'z', which is the current one"),
        ({"mapping": {"a": 7}, "current_node": "a", "id": "x"}, "a: expected an object (got 7)"),
        ({**CHAT, "mapping": []}, "mapping: expected an object (got [])"),
        ({**CHAT, "conversation_id": None, "id": None}, "has neither conversation_id nor id"),
        (conversation(node("a", "root", content=[1])), "message 'a': content: expected an object (got [1])"),
        (conversation(node("a", "root", text="x", author={"role": 5})), "message 'a': role: expected text (got 5)"),
        (conversation(node("a", "root", text="x" * 100_001)), "'chatgpt:c1:a': text: String should have at most"),
        (7, "conversation 2: expected an object (got 7)"),
    ],
)  # fmt: skip
def test_a_broken_conversation_is_named_and_the_others_go_on(tmp_path: Path, chat: Any, why: str) -> None:
    good = conversation(node("m", "root", text="fine"), conversation_id="good")
    batches = batches_of(tmp_path, [good, chat, {**good, "conversation_id": "last"}])
    assert [one["session_id"] for batch in batches for one in batch.memories] == ["good", "last"]
    [problem] = [str(one) for batch in batches for one in batch.problems]
    assert problem.startswith("conversations.json, conversation 2: ")
    assert why in problem


# Claude

CLAUDE: dict[str, Any] = {
    "uuid": "k1", "name": "Tides", "created_at": "2026-03-01T10:00:00.000000Z", "summary": "",
    "account": {"uuid": "me"},
    "chat_messages": [
        {
            "uuid": "m1", "sender": "human", "text": "When is high water?", "created_at": "2026-03-01T10:00:01Z",
            "content": [{"type": "text", "text": "When is high water?", "citations": []}],
            "attachments": [], "files": [],
        },
        {
            "uuid": "m2", "sender": "assistant", "created_at": "2026-03-01T10:00:05Z",
            "text": "```\nThis block is not supported on your current device yet.\n```\nAt noon.",
            "content": [
                {"type": "thinking", "thinking": "I look it up."},
                {"type": "tool_use", "name": "tides", "input": {"port": "Skarvik"}},
                {"type": "tool_result", "name": "tides", "content": [{"type": "text", "text": "12:00"}]},
                {"type": "text", "text": "At noon."},
            ],
        },
        {"uuid": "m3", "sender": "human", "text": "", "content": [], "created_at": "2026-03-01T10:01:00Z"},
        {"uuid": "m4", "sender": "human", "text": "Thanks.", "created_at": "2026-03-01T10:02:00Z"},
    ],
}  # fmt: skip


def test_a_claude_export_is_read(tmp_path: Path) -> None:
    memories = read(tmp_path, [CLAUDE])
    assert memories[1] == {
        "id": "claude:k1:m2", "session_id": "k1", "title": "Tides", "speaker": "assistant", "source": "claude",
        "text": 'tides({"port": "Skarvik"})\n\nAt noon.', "occurred_at": "2026-03-01T10:00:05Z",
    }  # fmt: skip
    assert [(one["speaker"], one["text"]) for one in memories[::2]] == [
        ("user", "When is high water?"),
        ("user", "Thanks."),
    ]
    assert problems(tmp_path, [{**CLAUDE, "uuid": None}]) == [
        "conversations.json, conversation 1: the conversation has no uuid"
    ]


# Message lists

OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather?"}, {"type": "image_url", "image_url": {}}]},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": '{"at": "Oslo"}'}}]},
    {"role": "tool", "tool_call_id": "t1", "name": "weather", "content": "rain"},
    {"role": "assistant", "content": "It rains.", "id": "msg_1", "created_at": 1772366400},
]  # fmt: skip


def test_openai_messages_are_read_with_tool_calls_and_results(tmp_path: Path) -> None:
    memories = read(tmp_path, OPENAI, "chat.json")
    session = f"{tmp_path.name}/chat.json"
    assert [(one["id"], one["speaker"], one["text"]) for one in memories] == [
        (f"openai:{session}:2", "user", "Weather?"),
        (f"openai:{session}:3", "assistant", 'weather({"at": "Oslo"})'),
        (f"openai:{session}:4", "weather", "rain"),
        (f"openai:{session}:msg_1", "assistant", "It rains."),
    ]
    assert {one["session_id"] for one in memories} == {session}
    assert memories[-1]["occurred_at"] == 1772366400


def test_conversations_of_messages_are_sessions_of_their_own(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"messages": OPENAI, **more}) for more in ({"id": "a", "title": "W"}, {}))
    memories = read(tmp_path, lines, "tuning.jsonl")
    assert [*dict.fromkeys(one["session_id"] for one in memories)] == ["a", f"{tmp_path.name}/tuning.jsonl#2"]
    assert (memories[0]["id"], memories[0]["title"]) == ("openai:a:2", "W")
    assert len(read(tmp_path, [OPENAI, OPENAI], "lists.json")) == 8
    assert len(read(tmp_path, json.dumps({"messages": OPENAI}, indent=2), "one.json")) == 4


def test_items_of_responses_threads_and_anthropic_messages_are_read(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "function_call", "name": "weather", "arguments": "{}", "call_id": "t"},
        {"type": "function_call_output", "call_id": "t", "output": "rain"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "It rains."}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "sun"}]},
        {"role": "user", "content": [{"type": "text", "text": {"value": "Thanks.", "annotations": []}}]},
    ]
    assert [(one["speaker"], one["text"]) for one in read(tmp_path, {"messages": messages})] == [
        ("user", "Weather?"), ("assistant", "weather({})"), ("tool", "rain"), ("assistant", "It rains."),
        ("tool", "sun"), ("user", "Thanks."),
    ]  # fmt: skip


def lc(kind: str, /, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": kwargs}


CALLS = [{"name": "weather", "args": {"at": "Oslo"}, "id": "t1", "type": "tool_call"}]


@pytest.mark.parametrize(
    "messages",
    [
        [
            {"type": "system", "data": {"content": "Be brief.", "type": "system"}},
            {"type": "human", "data": {"content": "Weather?", "type": "human", "name": "Ana", "id": "h1"}},
            {"type": "ai", "data": {"content": "", "tool_calls": CALLS, "id": "a1"}},
            {"type": "tool", "data": {"content": "rain", "tool_call_id": "t1", "name": "weather", "id": "t"}},
            {"type": "ai", "data": {"content": "It rains.", "id": "a2"}},
        ],
        [
            lc("SystemMessage", content="Be brief."),
            lc("HumanMessage", content="Weather?", name="Ana", id="h1"),
            lc("AIMessageChunk", content=[
                {"type": "tool_use", "name": "weather", "input": {"at": "Oslo"}}], tool_calls=CALLS, id="a1"),
            lc("ToolMessage", content="rain", name="weather", id="t"),
            lc("AIMessage", content="It rains.", type="ai", id="a2"),
        ],
        [
            {"type": "system", "content": "Be brief.", "additional_kwargs": {}},
            {"type": "human", "content": "Weather?", "name": "Ana", "id": "h1"},
            {"type": "ai", "content": "", "tool_calls": CALLS, "id": "a1"},
            {"type": "tool", "content": "rain", "name": "weather", "id": "t"},
            {"type": "ai", "content": "It rains.", "id": "a2"},
        ],
    ],
)  # fmt: skip
def test_langchain_messages_are_read_in_all_their_forms(tmp_path: Path, messages: list[Any]) -> None:
    memories = read(tmp_path, messages, "history.json")
    session = f"{tmp_path.name}/history.json"
    assert [(one["id"], one["speaker"], one["text"]) for one in memories] == [
        (f"langchain:{session}:h1", "Ana", "Weather?"),
        (f"langchain:{session}:a1", "assistant", 'weather({"at": "Oslo"})'),
        (f"langchain:{session}:t", "weather", "rain"),
        (f"langchain:{session}:a2", "assistant", "It rains."),
    ]
    assert memories[0]["metadata"] == {"role": "user"}


# mem0 and Hindsight

MEM0 = {
    "id": "e1", "memory": "Likes to play cricket.", "user_id": "alice", "hash": "ab", "score": 0.8,
    "metadata": {"source": "chat"}, "categories": ["hobbies", "sports"], "created_at": "2026-03-01T10:00:00-07:00",
    "updated_at": None, "expiration_date": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        {"count": 1, "next": None, "results": [MEM0]},
        [MEM0],
        json.dumps(MEM0),
        json.dumps({"results": [MEM0]}, indent=2),
    ],
)
def test_mem0_memories_are_read_from_results_lists_and_lines(tmp_path: Path, content: Any) -> None:
    assert read(tmp_path, content, "mem0.json") == [
        {
            "id": "mem0:e1", "text": "Likes to play cricket.", "user_id": "alice", "tags": ["hobbies", "sports"],
            "mentioned_at": "2026-03-01T10:00:00-07:00", "source": "mem0", "metadata": {"source": "chat"},
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "kept", "tags"),
    [
        ("fact", "world", ["fact"]),
        ("Preference", "opinion", ["Preference"]),
        ("plan", "plan", []),
        ("constraint", None, ["constraint"]),
    ],
)
def test_a_kind_of_another_system_becomes_the_nearest_one_and_a_tag(
    tmp_path: Path, kind: str, kept: str | None, tags: list[str]
) -> None:
    [memory] = read(tmp_path, [{"id": "a", "memory": "x", "kind": kind, "category": "c"}])
    assert (memory.get("kind"), memory["tags"]) == (kept, ["c", *tags])
    [memory] = read(tmp_path, json.dumps({"id": "a", "text": "x", "kind": kind}), "lines.jsonl")
    # An import's own line may have a kind that only the worker knows.
    assert (memory["kind"], memory.get("tags", [])) == (kept or kind, tags if kept else [])


def test_a_kind_that_the_worker_has_stays(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text('{"id": "a", "text": "x", "kind": "fact"}', "utf-8")
    [batch] = read_batches(file, read_mapping(kinds=("world", "fact")))
    assert batch.memories[0]["kind"] == "fact"


def test_a_bad_memory_of_mem0_is_named(tmp_path: Path) -> None:
    assert problems(tmp_path, {"results": [MEM0, {"memory": "x"}, {"id": "e2", "memory": ""}, 7]}) == [
        "conversations.json, item 1: memory 2: it has no id",
        "conversations.json, item 1: 'mem0:e2': text: String should have at least 1 character (got '')",
        "conversations.json, item 1: memory 4: expected an object (got 7)",
    ]


UNIT = {
    "id": "h1", "text": "Alice works at Google", "context": "work", "date": "2026-01-15T10:30:00Z", "type": "world",
    "entities": "Alice (PERSON), Google (ORGANIZATION)", "metadata": {"channel": "eng"}, "document_id": "d1",
    "tags": ["team"],
}  # fmt: skip


def test_units_of_hindsight_are_read(tmp_path: Path) -> None:
    [memory] = read(tmp_path, {"items": [UNIT], "total": 1, "limit": 100, "offset": 0}, "list.json")
    assert memory == {
        "id": "hindsight:h1", "text": "Alice works at Google", "kind": "world", "entities": ["Alice", "Google"],
        "occurred_at": "2026-01-15T10:30:00Z", "session_id": "d1", "tags": ["team"], "source": "hindsight",
        "metadata": {"channel": "eng", "context": "work", "document_id": "d1"},
    }  # fmt: skip
    found = {**UNIT, "fact_type": "mental_model", "mentioned_at": "2026-01-16T00:00:00Z", "entities": ["Alice"]}
    [memory] = read(tmp_path, [found], "units.json")
    assert "occurred_at" not in memory and "kind" not in memory
    assert (memory["mentioned_at"], memory["tags"]) == ("2026-01-16T00:00:00Z", ["team", "mental_model"])


def test_an_archive_of_hindsight_is_read(tmp_path: Path) -> None:
    fact = {
        "text": "Bo sails.", "fact_type": "experience", "context": None, "occurred_start": "2026-01-01T10:00:00Z",
        "occurred_end": "2026-01-02T10:00:00Z", "mentioned_at": "2026-01-03T10:00:00Z", "entities": ["Bo"],
        "chunk_index": 0, "causal_relations": [], "event_date": None,
    }  # fmt: skip
    with zipfile.ZipFile(tmp_path / "bank.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", "{}")
        archive.writestr("documents/000000.json", json.dumps({"id": "talk", "facts": [fact, fact]}, indent=2))
        archive.writestr(
            "observations.json", json.dumps([{"text": "Bo sails often.", "proof_count": 2, "sources": []}])
        )
    memories = [one for batch in read_batches(tmp_path / "bank.zip", PLAIN) for one in batch.memories]
    assert [(one["id"], one["kind"], one.get("session_id")) for one in memories] == [
        ("hindsight:talk:1", "experience", "talk"),
        ("hindsight:talk:2", "experience", "talk"),
        ("hindsight:Bo sails often.", "observation", None),
    ]
    assert (memories[0]["occurred_at"], memories[0]["occurred_until"]) == (
        fact["occurred_start"],
        fact["occurred_end"],
    )


# Markdown


NOTE = """---
title: Log of the harbour
date: 2026-03-01
tags: [harbour, log]
---
Written by Ana.

# Crane

It is repaired.

```sh
# no heading
```

## Empty

## 2026-03-04 Fog ##
It came from the north.
# Crane
Again.
"""


def test_a_markdown_file_is_a_note_a_section(tmp_path: Path) -> None:
    batches = batches_of(tmp_path, NOTE, "harbour.md")
    [batch] = batches
    key = f"{tmp_path.name}/harbour.md"
    common = {"session_id": key, "tags": ["harbour", "log"], "source": "notes"}
    march = "2026-03-01T00:00:00Z"
    assert batch.memories == [
        {"id": f"notes:{key}#Log of the harbour", "title": "Log of the harbour", "text": "Written by Ana.",
         "occurred_at": march, **common},
        {"id": f"notes:{key}#Crane", "title": "Crane", "text": "It is repaired.\n\n```sh\n# no heading\n```",
         "occurred_at": march, **common},
        {"id": f"notes:{key}#2026-03-04 Fog", "title": "2026-03-04 Fog", "text": "It came from the north.",
         "occurred_at": "2026-03-04T00:00:00Z", **common},
        {"id": f"notes:{key}#Crane#2", "title": "Crane", "text": "Again.", "occurred_at": march, **common},
    ]  # fmt: skip
    assert (batch.lines, batch.left_out, batch.format.name) == ([6, 8, 18, 20], 1, "Markdown notes")


def test_a_folder_of_markdown_files_is_read_and_a_bad_file_is_named(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    (vault / "days").mkdir(parents=True)
    (vault / ".trash").mkdir()
    (vault / "days/2026-02-03.md").write_text("Rain.", "utf-8")
    (vault / "bad.md").write_bytes(b"\xff")
    (vault / "front.md").write_text("---\na: [\n---\nx", "utf-8")
    (vault / "picture.png").write_bytes(b"\x89PNG")
    (vault / ".trash/old.md").write_text("gone", "utf-8")
    (vault / "link.md").symlink_to(vault / "bad.md")
    os.mkfifo(vault / "pipe.md")
    batches = [*read_batches(vault, PLAIN, called="vault")]
    [memory] = [one for batch in batches for one in batch.memories]
    assert (memory["id"], memory["occurred_at"]) == (
        "notes:vault/days/2026-02-03.md#2026-02-03",
        "2026-02-03T00:00:00Z",
    )
    told = [str(one) for batch in batches for one in batch.problems]
    assert told[0] == "vault/bad.md:1: not UTF-8 at byte 0 of the file"
    assert told[1].startswith("vault/front.md:1: the front matter is no YAML: ")
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(ImportFileError, match=r"neither conversations\.json nor a Markdown file"):
        list(read_batches(empty, PLAIN))


# Recognition


def test_what_is_an_import_s_own_stays_so(tmp_path: Path) -> None:
    rows = [
        {
            "id": "a",
            "text": "x",
            "type": "world",
            "mapping": {"n": 1},
            "messages": [{"role": "user", "content": "y"}],
        }
    ]
    for content, name in ((rows, "m.json"), (json.dumps(rows[0]), "m.jsonl")):
        [batch] = batches_of(tmp_path, content, name)
        assert (batch.memories[0]["id"], batch.format.unit) == ("a", "item" if name == "m.json" else "line")
    file = tmp_path / "mapped.json"
    file.write_text(json.dumps([MEM0]), "utf-8")
    [batch] = read_batches(file, read_mapping("id=id,text=memory"))
    assert (batch.memories[0]["id"], batch.format.name) == ("e1", "JSON array")


def test_an_archive_and_the_folder_it_was_unpacked_to_give_the_same(tmp_path: Path) -> None:
    (folder := tmp_path / "export").mkdir()
    for name, chat in (("000", CHAT), ("001", conversation(node("m", "root", text="fine"), conversation_id="c2"))):
        (folder / f"conversations-{name}.json").write_text(json.dumps([chat]), "utf-8")
    (folder / "user.json").write_text("{}", "utf-8")
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.iterdir():
            archive.write(file, f"nested/{file.name}")
        archive.writestr("nested/chat.html", "<html>")
    packed, unpacked = (
        [one for batch in read_batches(path, PLAIN) for one in batch.memories]
        for path in (tmp_path / "export.zip", folder)
    )
    assert packed == unpacked
    assert {one["session_id"] for one in packed} == {"c1", "c2"}


# Broken and hostile files


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (json.dumps([CHAT, CHAT])[:-40], "conversations.json: not JSON: "),
        (json.dumps([CHAT], indent=1) + "x", "not JSON: Extra data at line"),
        ("[" + json.dumps(CHAT) + "\n" + json.dumps(CHAT) + "]", "Expecting ',' delimiter at line 2, column 1"),
        ('{\n "results": [\n', "not JSON: Expecting value at line 3, column 1"),
        ("[" + json.dumps(CHAT) + ",\n" + "[" * 100_000, "nested too deeply (the value that begins at line 2)"),
    ],
)  # fmt: skip
def test_a_file_that_is_cut_or_no_json_is_refused_with_its_place(tmp_path: Path, content: str, why: str) -> None:
    with pytest.raises(ImportFileError) as refused:
        batches_of(tmp_path, content)
    assert why in str(refused.value)


def test_deep_nesting_within_a_message_costs_its_conversation_only(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    bad = conversation(node("a", "root", content={"content_type": "text", "parts": deep}))
    assert problems(tmp_path, [CHAT, bad]) == [
        "conversations.json, conversation 2: the JSON is nested more than 90 levels deep"
    ]


@example(items=[0.0, 1e-7], indent=None, is_ascii=True, size=1)
@given(
    items=st.lists(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=6,
    ),
    indent=st.sampled_from([None, 0, 2]),
    is_ascii=st.booleans(),
    size=st.integers(1, 40),
)
def test_values_are_the_same_however_the_file_is_cut(
    items: list[Any], indent: int | None, is_ascii: bool, size: int, tmp_path: Path
) -> None:
    file = tmp_path / "values.json"
    file.write_bytes(json.dumps(items, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch, file.open("rb") as opened:
        patch.setattr(json_values, "_CHUNK_BYTES", size)
        try:
            found = [value for _, value in json_values.json_values(opened)]
        except UnicodeDecodeError:
            return  # half a surrogate pair
    assert found == items


EXPORTS: tuple[Any, ...] = (
    [CHAT],
    [CLAUDE],
    OPENAI,
    [MEM0],
    {"items": [UNIT]},
    [lc("AIMessage", content="x", tool_calls=CALLS)],
)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Every list and object in it, with each of its places."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(cast("dict[Any, Any]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[Any]", value)))
    return [(cast("Any", value), place) for place, _ in inner] + [
        found for _, one in inner for found in places_in(one)
    ]


@given(data=st.data())
def test_whatever_stands_in_an_export_is_read_or_named(tmp_path: Path, data: st.DataObject) -> None:
    export = json.loads(json.dumps(data.draw(st.sampled_from(EXPORTS))))
    for _ in range(data.draw(st.integers(1, 3))):
        holder, place = data.draw(st.sampled_from(places_in(export)))
        other = 'null true 0 -1.5 "" "x" [] [null] ["x"] {} {"a":1} [[[]]]'.split()
        holder[place] = json.loads(data.draw(st.sampled_from(other)))
        if not places_in(export):
            break
    try:
        batches = batches_of(tmp_path, export)
    except ImportFileError:
        return
    for batch in batches:
        assert len(batch.memories) == len(batch.lines)
        json.dumps(batch.memories)


def peak_mib(work: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        with pytest.raises(ImportFileError):
            work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_a_giant_text_is_refused_with_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "MAX_VALUE_CHARS", 4 << 20)
    file = tmp_path / "giant.json"
    with file.open("wb") as writing:
        writing.write(b'[{"mapping": {}, "title": "')
        writing.writelines(itertools.repeat(b"x" * (1 << 20), 64))
        writing.write(b'"}]')
    assert peak_mib(lambda: [*read_batches(file, PLAIN)]) < 32
    with pytest.raises(ImportFileError, match="one value is too large: at most 4,194,304 characters"):
        list(read_batches(file, PLAIN))
    monkeypatch.setattr(json_values, "_MOST_SIGNS", 10_000)
    file.write_text("[[" + "[]," * 500_000, "utf-8")
    with pytest.raises(ImportFileError, match="10,000 of them commas and brackets"):
        list(read_batches(file, PLAIN))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("conversations.json", "w") as writing,
    ):
        for _ in range(80):
            writing.write(b" " * (1 << 20))
    assert peak_mib(lambda: [*read_batches(bomb, PLAIN)]) < 4
    with pytest.raises(ImportFileError, match=r"bomb.zip/conversations.json: has 83886080 bytes, packed into \d+"):
        list(read_batches(bomb, PLAIN))


def test_what_is_packed_below_the_limit_is_read_in_bounded_memory(tmp_path: Path) -> None:
    bomb = tmp_path / "blanks.zip"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("conversations.json", "w") as writing,
    ):
        writing.write(b"[")
        for _ in range(60):
            writing.write(b" " * (1 << 20))
        writing.write(b"1")
    assert peak_mib(lambda: [*read_batches(bomb, PLAIN)]) < 16


@pytest.mark.parametrize("damage", ["cut", "garbled", "lzma", "nothing"])
def test_an_archive_that_cannot_be_unpacked_is_refused(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "export.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA if damage == "lzma" else zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json" if damage == "nothing" else "conversations.json", json.dumps([CHAT] * 20))
    raw = bytearray(file.read_bytes())
    if damage == "garbled":
        raw[60:120] = bytes(60)
    file.write_bytes(raw[:200] if damage == "cut" else raw)
    with pytest.raises(ImportFileError, match=r"export\.zip"):
        list(read_batches(file, PLAIN))


def test_front_matter_that_multiplies_itself_is_read_as_nothing(tmp_path: Path) -> None:
    laughs = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'lol'}]" for n in range(12))
    [memory] = read(tmp_path, f"---\n{laughs}\ntags: *a11\ntitle: *a11\n---\nFog.\n", "bomb.md")
    assert memory["text"] == "Fog."


def test_a_large_export_is_read_one_conversation_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    with file.open("w", encoding="utf-8") as writing:
        for number in range(100):
            chat = conversation(
                *(node(f"m{n}", f"m{n - 1}" if n else "root", text="fog " * 6000) for n in range(10))
            )
            writing.write(f"{',' if number else '['}{json.dumps({**chat, 'conversation_id': f'c{number}'})}")
        writing.write("]")
    tracemalloc.start()
    count = sum(len(batch.memories) for batch in read_batches(file, PLAIN))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (count, peak < 16 << 20) == (1000, True), peak
    assert file.stat().st_size > 2 * peak
