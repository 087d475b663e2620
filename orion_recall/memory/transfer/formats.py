"""Exports of other systems: which one a file is, and its memories in the fields of an import.

A format is recognised by the shape of the first JSON value, and reads every value by itself. Ids are made of the
export's own ids, so that a second import changes nothing; where it has none, of the names of file and folder and
the place in the file.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, cast

import yaml

from orion_recall.bus.bounded import is_too_deep
from orion_recall.contracts.fields import MEMORY_KINDS
from orion_recall.errors import InvalidMessage

Unit = Literal["line", "row", "item", "conversation"]
_Json = dict[str, Any]
_T = TypeVar("_T")
# A message may be a hundred levels deep, and a memory stands some way down in it.
MOST_LEVELS = 90

LEFT_OUT = object()
"""Stands for what is no memory: a system prompt, a hidden or empty message, reasoning, a heading without text."""

# Kinds of other systems, and the nearest one here; the other name is kept as a tag.
NEAREST_KINDS: Mapping[str, str] = {
    "fact": "world", "semantic": "world", "preference": "opinion", "belief": "opinion", "event": "experience",
    "episode": "experience", "episodic": "experience", "insight": "observation", "procedural": "procedure",
    "procedural_memory": "procedure", "instruction": "procedure", "goal": "plan", "todo": "task",
    "reminder": "task",
}  # fmt: skip


class Format(NamedTuple):
    """A format by its name; `unit` counts places in it, `noun` its memories.

    `read` gives the memories of one JSON value (with its number and the file's name), each as the fields of a
    memory, LEFT_OUT, or InvalidMessage; it raises InvalidMessage where the value is no such export.
    """

    name: str
    unit: Unit
    noun: str
    read: Callable[[Any, int, str], Iterator[object]] = lambda value, number, key: iter((value,))

    def records(self, values: Iterable[tuple[int, Any]], key: str) -> Iterator[tuple[int, object]]:
        """The memories of all values, each with its value's number."""
        for number, value in values:
            try:
                if is_too_deep({"": value}, MOST_LEVELS):
                    raise InvalidMessage(f"the JSON is nested more than {MOST_LEVELS} levels deep")
                for record in self.read(value, number, key):
                    yield number, record
            except InvalidMessage as error:
                yield number, error


# Conversations


class _Turn(NamedTuple):
    role: str
    text: str
    at: object = None
    name: object = None


def _conversation(
    system: str, session: str, messages: Iterable[tuple[object, object]], turn_of: Callable[[_Json], _Turn | None],
    title: object = None, at: object = None,
) -> Iterator[object]:  # fmt: skip
    """The messages, each under its name, in order. One without a time has that of the one before it."""
    for name, message in messages:
        try:
            turn = turn_of(_object(message))
        except InvalidMessage as error:
            yield InvalidMessage(f"message {str(name)[:80]!r}: {error}")
            continue
        if turn is None or turn.role == "system" or not turn.text.strip():
            yield LEFT_OUT
            continue
        at = turn.at or at
        yield {
            "id": f"{system}:{session}:{name}", "session_id": session, "title": title, "text": turn.text,
            "speaker": turn.name or turn.role, "role": turn.name and turn.role, "occurred_at": at, "source": system,
        }  # fmt: skip


_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
_SPEAKING = frozenset((*_ROLES, "user", "assistant", "system", "tool", "chat"))


def _role(name: object) -> str:
    """`user` of LangChain's `human` and `HumanMessageChunk`; the other roles alike."""
    role = _text(name, "role").removesuffix("Chunk").removesuffix("Message").lower()
    return _ROLES.get(role, role)


def _said(content: object) -> tuple[str, bool]:
    """The text and the tool calls of a content or its parts; where it has none, its tool results, and True."""
    said: list[str] = []
    results: list[str] = []
    for part in cast("list[object]", content) if isinstance(content, list) else [content]:
        if not isinstance(part, dict):
            said += [_text(part, "content")] if part is not None else []
            continue
        inner = cast("_Json", part)
        kind = str(inner.get("type"))
        text = inner.get("text") or inner.get("refusal")
        if kind in ("thinking", "redacted_thinking", "reasoning"):
            continue
        if kind.endswith(("_use", "_call")):
            said.append(_call(inner))
        elif kind.endswith(("_result", "_output")):
            results.append(_said(inner.get("content") or inner.get("output"))[0])
        elif text := cast("_Json", text).get("value") if isinstance(text, dict) else text:  # as assistants write it
            said.append(_text(text, "content"))
    return "\n\n".join(filter(str.strip, said or results)), bool(results and not said)


def _call(call: _Json) -> str:
    """`search({"in": "log"})`"""
    function = _object(call.get("function") or call.get("custom") or call)
    given = next((function[name] for name in ("arguments", "args", "input") if function.get(name) is not None), "")
    name = function.get("name") or call.get("type")
    return f"{name}({given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)})"


def _chatgpt(value: Any, number: int, key: str) -> Iterator[object]:
    told = _object(value)
    if (session := _own(told, "conversation_id", "id")) is None:
        raise InvalidMessage("the conversation has neither conversation_id nor id")
    branch = _branch(told)
    return _conversation("chatgpt", session, branch, _chatgpt_turn, told.get("title"), told.get("create_time"))


def _branch(conversation: _Json) -> list[tuple[str, object]]:
    """The messages from the root to `current_node`, by the ids of their nodes; other branches were replaced.

    Without a `current_node` it is the last node that has no child.
    """
    nodes = _dict(conversation, "mapping")
    at = _str(conversation, "current_node")
    if not at and nodes:
        parents = {_str(_dict(nodes, name), "parent") for name in nodes}
        leaves = (name for name in reversed(nodes) if name not in parents and _dict(nodes, name).get("message"))
        at = next(leaves, next(reversed(nodes)))
    if at and at not in nodes:
        raise InvalidMessage(f"mapping: there is no node {at[:80]!r}, which is the current one")
    branch: dict[str, object] = {}
    while at in nodes:
        if at in branch:
            raise InvalidMessage(f"mapping: the parents of node {at[:80]!r} lead back to it")
        node = _dict(nodes, at)
        branch[at], at = node.get("message"), _str(node, "parent")
    return [(name, message) for name, message in reversed(branch.items()) if message]


def _chatgpt_turn(message: _Json) -> _Turn | None:
    content, told, author = (_dict(message, name) for name in ("content", "metadata", "author"))
    kind = str(content.get("content_type"))
    if (
        told.get("is_visually_hidden_from_conversation")
        or told.get("is_user_system_message")
        or kind in ("thoughts", "reasoning_recap")
        or kind.endswith("_editable_context")
    ):
        return None
    text, _ = _said(content.get("parts") or content.get("text") or content.get("result"))
    return _Turn(_role(author.get("role")), text, message.get("create_time"), author.get("name"))


def _claude(value: Any, number: int, key: str) -> Iterator[object]:
    told = _object(value)
    if (session := _own(told, "uuid")) is None:
        raise InvalidMessage("the conversation has no uuid")
    messages = _named(_list(told, "chat_messages"), "uuid")
    return _conversation("claude", session, messages, _claude_turn, told.get("name"), told.get("created_at"))


def _claude_turn(message: _Json) -> _Turn:
    text = _said(message.get("content"))[0] or _said(message.get("text"))[0]
    return _Turn(_role(message.get("sender")), text, message.get("created_at"))


def _messages(system: str, value: object, number: int, key: str) -> Iterator[object]:
    """A list of messages, an object with one, or one message of a list that is the whole file."""
    listed = _listed(value)
    whole = _if_object(value)
    names = ("conversation_id", "thread_id", "session_id", *(["id"] if listed is not None else []))
    session = _own(whole, *names) or (key if listed is None else f"{key}#{number}")
    messages = _named([value], "id", number) if listed is None else _named(listed, "id")
    title, at = (whole.get("title"), _time(whole)) if listed is not None else (None, None)
    return _conversation(system, session, messages, _message_turn, title, at)


def _message_turn(message: _Json) -> _Turn:
    kind, body = _unwrapped(message)
    is_part = "role" not in message and "content" not in body  # function_call, function_call_output, reasoning
    text, is_result = _said([body] if is_part else body.get("content"))
    calls = [*_list(body, "tool_calls"), *filter(None, [body.get("function_call")])]
    for call in map(_call, map(_object, calls)):
        if call not in text:  # LangChain repeats those of the content
            text = f"{text}\n\n{call}".strip()
    role = "tool" if is_result else "assistant" if is_part else _role(kind)
    return _Turn(role, text, _time(body), body.get("name") if not is_part else None)


def _unwrapped(message: object) -> tuple[object, _Json]:
    """Role and fields of a message, as OpenAI has it or as LangChain writes it: in `data`, in `kwargs` or plain."""
    given = _if_object(message)
    if (body := _if_object(given.get("kwargs"))) and isinstance(path := given.get("id"), list) and path:
        kind = body.get("type") or cast("list[object]", path)[-1]
    else:
        body = _if_object(given.get("data")) or given
        kind = given.get("role") or given.get("type")
    return body.get("role") if kind in ("chat", "ChatMessage") else kind, body


def _time(body: _Json) -> object:
    return next(
        (body[name] for name in ("created_at", "create_time", "timestamp", "created") if body.get(name)), None
    )


def _named(messages: list[Any], name: str, first: int = 1) -> Iterator[tuple[object, object]]:
    """The messages under their own ids, else under their places."""
    for place, message in enumerate(messages, first):
        _, body = _unwrapped(message)
        yield _own(body, name) or place, message


# Memories


def _each(items: Iterable[object], row: Callable[[_Json, int], _Json]) -> Iterator[object]:
    for place, item in enumerate(items, 1):
        try:
            yield row(_object(item), place)
        except InvalidMessage as error:
            yield InvalidMessage(f"memory {place}: {error}")


def _mem0(value: Any, number: int, key: str) -> Iterator[object]:
    return _each(_listed(value) or [value], _mem0_row)


def _mem0_row(item: _Json, place: int) -> _Json:
    tags = _many(item.get("categories") or item.get("category"))
    kind = item.get("kind") or _dict(item, "metadata").get("memory_type")
    return {
        **_without(item, "memory", "created_at", "score", "hash", "categories", "category"), **_of_kind(kind, tags),
        "id": _identified("mem0", _own(item, "id")), "text": item.get("memory"),
        "mentioned_at": item.get("created_at"), "source": "mem0",
    }  # fmt: skip


def _hindsight(value: object, number: int, key: str) -> Iterator[object]:
    """Units, as the lists of its API have them, or a document of its archive with its facts."""
    told = _if_object(value)
    facts = _list(told, "facts")
    units: list[Any] = facts or _listed(value) or [value]
    return _each(units, partial(_unit_row, _own(told, "id") if facts else None))


def _unit_row(document: str | None, unit: _Json, place: int) -> _Json:
    # A fact of a document has a place and no id; an observation of an archive has neither: it is what it says.
    name = f"{document}:{place}" if document else _own(unit, "id") or _str(unit, "text")[:400]
    times = ("occurred_start", *(() if unit.get("mentioned_at") else ("date", "event_date")))
    entities = unit.get("entities")
    if isinstance(entities, str):  # "Alice (PERSON), Google (ORGANIZATION)"
        entities = [re.sub(r" \([A-Z_]+\)$", "", one) for one in entities.split(", ")]
    return {
        **_without(unit, *_UNIT_FIELDS),
        **_of_kind(unit.get("fact_type") or unit.get("type") or "observation", _many(unit.get("tags"))),
        "id": _identified("hindsight", name), "session_id": document or _own(unit, "document_id"),
        "occurred_at": next((unit[one] for one in times if unit.get(one)), None),
        "occurred_until": unit.get("occurred_end"), "entities": entities, "source": "hindsight",
    }  # fmt: skip


_UNIT_FIELDS = (
    "fact_type", "type", "occurred_start", "occurred_end", "date", "event_date", "scores", "embedding",
    "created_at", "updated_at", "consolidated_at", "proof_count",
)  # fmt: skip


def _identified(system: str, name: str | None) -> str:
    if name is None:
        raise InvalidMessage("it has no id")
    return f"{system}:{name}"


def _of_kind(kind: object, tags: list[object]) -> _Json:
    """`kind` and `tags`: a kind that has none near it is a tag."""
    if not kind or (name := str(kind).casefold()) in NEAREST_KINDS:
        return {"kind": kind, "tags": tags}
    return {"kind": name, "tags": tags} if name in MEMORY_KINDS else {"kind": None, "tags": [*tags, kind]}


def _many(value: object) -> list[object]:
    """Labels of a list or an object, or one; what is no plain value is none."""
    found = cast("Iterable[object]", value) if isinstance(value, list | dict) else [value]
    return [one for one in found if isinstance(one, str | int)]


# Notes

_HEADING = re.compile(r"#{1,6}(?=[ \t])")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_MOST_NOTE_BYTES = 4 << 20
_DATE = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)")


def read_notes(file: BinaryIO, key: str) -> Iterator[tuple[int, object]]:
    """A note for each section of a Markdown file, with the line where it begins.

    Its date is the one its heading begins with, that of the front matter (`date`, else `created`) or that in the
    file's name.
    """
    try:
        if len(data := file.read(_MOST_NOTE_BYTES + 1)) > _MOST_NOTE_BYTES:
            raise InvalidMessage(f"the file is longer than {_MOST_NOTE_BYTES} bytes")
        lines = data.decode("utf-8-sig").splitlines()
        front, begin = _front_matter(lines)
    except UnicodeDecodeError as error:
        yield 1, InvalidMessage(f"not UTF-8 at byte {error.start} of the file")
        return
    except InvalidMessage as error:
        yield 1, error
        return
    name = key.rpartition("/")[2].rpartition(".")[0] or key
    dated = front.get("date") or front.get("created") or _date_in(name)
    tags = front.get("tags")
    seen: Counter[str] = Counter()
    for line, heading, said in _sections(lines, begin):
        title = heading or str(front.get("title") or name)
        seen[title] += 1
        again = f"#{seen[title]}" if seen[title] > 1 else ""
        note = {
            "id": f"notes:{key}#{title[:200]}{again}", "session_id": key, "title": title, "text": said,
            "occurred_at": _date_in(title[:10]) or dated, "source": "notes",
            "tags": re.split(r"[,\s]+", tags) if isinstance(tags, str) else _many(tags),
        }  # fmt: skip
        if said or heading:
            yield line, note if said else LEFT_OUT


def _sections(lines: list[str], begin: int) -> Iterator[tuple[int, str, str]]:
    """Line, heading and text of each section; the first is what stands before any heading. Code has no headings."""
    at, heading, body, fence = begin + 1, "", list[str](), ""
    for number, line in enumerate(lines[begin:], begin + 1):
        if mark := _FENCE.match(line):
            fence = fence.replace(mark[1], "") if fence else mark[1]
        found = None if fence else _HEADING.match(line)
        if found is None:
            body.append(line)
            continue
        yield at, heading, "\n".join(body).strip()
        at, heading, body = number, line[found.end() :].strip(), []
        if (shorter := heading.rstrip("#")) != heading and shorter[-1:] in ("", " ", "\t"):  # "## Tides ##"
            heading = shorter.rstrip()
    yield at, heading, "\n".join(body).strip()


def _front_matter(lines: list[str]) -> tuple[_Json, int]:
    """Plain fields between two lines of `---` at the beginning, and the number of lines that it takes."""
    if not lines or lines[0].rstrip() != "---" or "---" not in (rest := [line.rstrip() for line in lines[1:]]):
        return {}, 0
    end = rest.index("---")
    try:
        found: object = yaml.safe_load("\n".join(rest[:end]))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"the front matter is no YAML: {' '.join(str(error).split())[:200]}") from error
    fields = _if_object(found)
    return {name: _stated(fields.get(name)) for name in ("title", "date", "created", "tags")}, end + 2


def _stated(value: object) -> object:
    """A field of the front matter; a date alone is midnight in UTC, which is how memories have it."""
    if isinstance(value, list | dict):
        return _many(cast("object", value))
    text = value.isoformat() if isinstance(value, date) else value
    return f"{text}T00:00:00Z" if isinstance(text, str) and _DATE.fullmatch(text) else text


def _date_in(text: str) -> str | None:
    found = _DATE.search(text)
    try:
        return f"{date.fromisoformat(found[0])}T00:00:00Z" if found else None
    except ValueError:
        return None


# Recognition

CHATGPT = Format("ChatGPT export", "conversation", "message", _chatgpt)
CLAUDE = Format("Claude export", "conversation", "message", _claude)
OPENAI = Format("OpenAI messages", "item", "message", partial(_messages, "openai"))
LANGCHAIN = Format("LangChain messages", "item", "message", partial(_messages, "langchain"))
MEM0 = Format("mem0 memories", "item", "memory", _mem0)
HINDSIGHT = Format("Hindsight memories", "item", "memory", _hindsight)
NOTES = Format("Markdown notes", "line", "note")
LINES, ITEMS, ROWS = (
    Format("JSON lines", "line", "line"),
    Format("JSON array", "item", "item"),
    Format("CSV", "row", "row"),
)

# What holds a list: of mem0, Hindsight, OpenAI and of those who save messages with more beside them.
_LISTS = ("results", "items", "memories", "messages", "data")
_UNIT_SIGNS = frozenset(("fact_type", "chunk_id", "document_id", "proof_count", "context"))


def recognise(value: object) -> Format | None:
    """The format whose shape the first JSON value of a file has; None: an import's own fields, or nothing known."""
    if isinstance(_if_object(value).get("text"), str):
        return _shape(value)
    return _shape(value) or next((_shape(one) for one in _listed(value) or ()), None)


def _shape(value: object) -> Format | None:
    given = _if_object(value)
    if isinstance(given.get("text"), str):
        is_unit = "fact_type" in given or not {"type", "proof_count"}.isdisjoint(given)
        return HINDSIGHT if is_unit and not _UNIT_SIGNS.isdisjoint(given) else None
    if isinstance(given.get("mapping"), dict):
        return CHATGPT
    if isinstance(given.get("chat_messages"), list):
        return CLAUDE
    if isinstance(given.get("facts"), list):
        return HINDSIGHT
    if isinstance(given.get("memory"), str) and "id" in given:
        return MEM0
    kind, body = _unwrapped(given)
    if isinstance(kind, str) and _role(kind) in _SPEAKING and ("content" in body or "tool_calls" in body):
        return OPENAI if "role" in given else LANGCHAIN
    return None


def _listed(value: object) -> list[Any] | None:
    """The list that a value is or holds; None without one."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    given = _if_object(value)
    return next((given[name] for name in _LISTS if isinstance(given.get(name), list)), None)


# Fields


def _own(value: _Json, *names: str) -> str | None:
    """The first of these fields that is there, as text."""
    found = (value.get(name) for name in names)
    return next((str(one) for one in found if isinstance(one, str | int) and one != ""), None)


def _if_object(value: object) -> _Json:
    return cast("_Json", value) if isinstance(value, dict) else {}


def _object(value: object) -> _Json:
    if not isinstance(value, dict):
        raise InvalidMessage(f"expected an object (got {reprlib.repr(value)})")
    return cast("_Json", value)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidMessage(f"{where}: expected text (got {reprlib.repr(value)})")
    return value


def _field(value: _Json, name: str, kind: type[_T], called: str) -> _T | None:
    found = value.get(name)
    if found is not None and not isinstance(found, kind):
        raise InvalidMessage(f"{name[:80]}: expected {called} (got {reprlib.repr(found)})")
    return found


def _dict(value: _Json, name: str) -> _Json:
    """The field, empty where it is absent or null. InvalidMessage: it is no object."""
    return cast("_Json | None", _field(value, name, dict, "an object")) or {}


def _list(value: _Json, name: str) -> list[Any]:
    return cast("list[Any] | None", _field(value, name, list, "a list")) or []


def _str(value: _Json, name: str) -> str:
    return _field(value, name, str, "text") or ""


def _without(value: _Json, *names: str) -> _Json:
    return {name: one for name, one in value.items() if name not in names}
