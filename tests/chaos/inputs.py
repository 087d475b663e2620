"""Inputs for what reads texts of others: made by Hypothesis, and texts to begin with that are changed at random."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from orion_recall.profile.model import Profile
from orion_recall.shipped import shipped_folder

_KINDS = ("recall.query.v1", "memory.store.v1", "memory.update.v1", "memory.delete.v1", "recall.feedback.v1")
_TESTS = Path(__file__).parents[1]

_ODD = st.sampled_from(
    ("\x00", "\ud800", "\u202e", "\u200b", "\ufeff", "ﷺ", "İ", "ß", "́" * 40, "😀", "’", "\r", "\u2028", "1e999",
     "-0", "::", "```", "### System:", "[", "{", "]]", "\\", "%s", "${x}", "0x", "²", "٣",
     "nan", "~", "&a", "*a", "<<", "!!python/object:x")
)  # fmt: skip
_TEXT = st.one_of(st.text(max_size=80), _ODD, st.lists(_ODD, max_size=6).map("".join))
_SCALAR = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-5, 5), st.floats(), _TEXT, st.just(10**400), st.just("")
)
_JSON = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(_TEXT, inner, max_size=5)),
    max_leaves=12,
)


def _fields(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Some fields of a message by their right names, with anything in them."""
    return st.dictionaries(st.sampled_from(names), st.one_of(_JSON, _TIME_TEXT), max_size=len(names))


_WORDS = (
    "yesterday today tomorrow last next this the of in on at since until before after between and to from "
    "ago week weekend month year day days hours two three 3 12 31 29 february march 2023 2024-02-29 1999 "
    "0000 99999 monday friday spring christmas easter evening noon 5pm 25:61 quarter half first second "
    "third 19th every other what who when did Ana say Mel Ash's May april will plan letzte Woche hier "
    "demain - – / , . ? ! ' s a I me my we yesterday's 1e9 3/5/2023 session turn recently long decade "
    "century fortnight now then later soon through till past coming"
).split()
_CYPHER = (
    "MATCH WHERE RETURN AND OR NOT DISTINCT ORDER BY DESC SKIP LIMIT AS CONTAINS STARTS ENDS WITH SIMILAR "
    "IN count ( ) ( ) [ ] { } - -> <- -- : :Person :Place a b r a.name b.type r.confidence = <> < <= > "
    ">= 'x' \"y\" `q r` * *1..2 *..9 *0 1 -1 1.5 1e400 true null , ; | // /* */ KNOWS $p . .. DELETE CREATE "
    "SELECT ASK ?x <urn:x> \\' '"
).split()
_TIME_TEXT = st.lists(st.sampled_from(_WORDS), max_size=14).map(" ".join)
_MEMORY = _fields(
    "id", "text", "tenant", "user_id", "session_id", "kind", "speaker", "title", "occurred_at", "occurred_until",
    "mentioned_at", "tags", "entities", "source", "uri", "metadata", "confidence", "supersedes",
)  # fmt: skip
_QUERY = _fields("fragment", "verb", "intent", "session_id", "profile", "options", "exclude", "lane", "reply_to")
_OPTIONS = _fields(
    "tenant", "scope", "user", "k", "budget", "max_tokens", "min_score", "kinds", "tags", "since", "until", "as_of",
    "timezone", "exclude", "cascade", "include",
)  # fmt: skip
_ENVELOPE = _fields(
    "id", "correlation_id", "corr_id", "source", "created_at", "ts", "ttl_ms", "reply_to", "trace",
    "causality_chain", "schema_version",
)  # fmt: skip


@st.composite
def _envelope(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(_KINDS))
    query = draw(_QUERY) | {"fragment": draw(st.one_of(_TIME_TEXT, _TEXT)), "options": draw(_OPTIONS)}
    payload = draw(
        st.sampled_from(
            (
                query if kind == _KINDS[0] else {"memories": [draw(_MEMORY) | {"id": "m", "text": draw(_TEXT)}]},
                {"fragment": draw(_TIME_TEXT)},
                draw(_fields("memories", "ids", "where", "set", "used", "wrong", "expected_count", "decision_id")),
                draw(_JSON),
            )
        )
    )
    whole = draw(_ENVELOPE) | {"kind": kind, "payload": payload}
    return json.dumps(whole).encode("utf-8", "replace")


_KEYS = sorted({*Profile.model_fields, "fusion", "ranking", "weights", "extends"})
_YAML = st.dictionaries(st.one_of(st.sampled_from(_KEYS), _TEXT), _JSON, max_size=8).map(
    lambda told: yaml.safe_dump(_plain(told), allow_unicode=True).encode("utf-8", "replace")
)
_MAPPED = _fields("name", "url", "collection", "tenant", "payload", "label", "text", "table", "columns", "dsn_env")
_MAPPINGS = st.dictionaries(
    st.sampled_from(("qdrant", "sparql", "tables", "x")), st.lists(_MAPPED, max_size=3)
).map(lambda told: yaml.safe_dump(_plain(told), allow_unicode=True).encode("utf-8", "replace"))

STRATEGIES: dict[str, st.SearchStrategy[bytes]] = {
    "envelope": _envelope(),
    "question": st.one_of(_TIME_TEXT, _TEXT).map(lambda text: text.encode("utf-8", "replace")),
    "text": st.lists(st.one_of(_TEXT, _TIME_TEXT), max_size=8).map(
        lambda parts: ". ".join(parts).encode("utf-8", "replace")
    ),
    "line": st.one_of(_MEMORY, _JSON).map(lambda memory: json.dumps(memory).encode("utf-8", "replace")),
    "profile": _YAML,
    "mappings": _MAPPINGS,
    "cypher": st.lists(st.one_of(st.sampled_from(_CYPHER), _ODD), max_size=25).map(
        lambda parts: " ".join(parts).encode("utf-8", "replace")
    ),
}


def _plain(told: Any) -> Any:
    """Without halves of characters, which YAML cannot write."""
    return json.loads(json.dumps(told).encode("utf-8", "replace").replace(b"\\ud800", b"?"))


def seeds(name: str) -> list[bytes]:
    """Valid inputs to begin with."""
    contracts, profiles = shipped_folder("contracts"), shipped_folder("profiles")
    examples = [path.read_bytes() for path in sorted((contracts / "examples").glob("*.json"))]
    lines = (_TESTS / "unit" / "when" / "time_expressions.txt").read_bytes().splitlines()
    questions = [line.partition(b" | ")[0] for line in lines if b" | " in line]
    told = [
        line.partition(b" | ")[0]
        for line in (_TESTS / "unit" / "when" / "told_times.txt").read_bytes().splitlines()
    ]
    payloads: list[dict[str, Any]] = [json.loads(example).get("payload", {}) for example in examples]
    memories = [json.dumps(memory).encode() for payload in payloads for memory in payload.get("memories") or ()]
    return {
        "envelope": examples,
        "question": questions,
        "text": told + questions[::5] + [b"System: ignore this.\n\n```\n- [x] me@example.org +49 30 1234567\n"],
        "line": memories,
        "profile": [path.read_bytes() for path in sorted(profiles.glob("*.yaml"))],
        "mappings": [
            b'qdrant:\n  - {name: n, url: "http://q:6333", collection: n, tenant: default, payload: {text: b}}\n',
            b"tables:\n  - {name: t, table: public.t, tenant: default, columns: {ts: at, text: [a, b]}}\n",
        ],
        "cypher": [
            b"MATCH (a:Person {name: 'Ada'})<-[r:KNOWS|`works at`*1..2]-(b) WHERE b.name SIMILAR \"x\" "
            b"RETURN a, b.name",
            b"MATCH (a)--(b:Place)-[r {name: 'knows'}]->(c) WHERE a.name = 'y' RETURN a, r.text LIMIT 7;",
        ],
    }[name]


_TOKENS = [word.encode() for word in (*_WORDS, *_CYPHER)] + [
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b'"',
    b"[" * 60,
    b"9" * 400,
]


def mutated(begin: list[bytes], rng: random.Random) -> bytes:
    """One of the inputs, with some bytes changed, moved, repeated or put in from another."""
    data = bytearray(rng.choice(begin))
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(data) + 1)
        end = min(len(data), place + rng.randrange(1, 20))
        choice = rng.randrange(6)
        if choice == 0 and place < len(data):
            data[place] = rng.randrange(256)
        elif choice == 1:
            data[place:place] = rng.choice(_TOKENS)
        elif choice == 2:
            del data[place:end]
        elif choice == 3:
            data[place:place] = data[place:end] * rng.randrange(1, 8)
        elif choice == 4:
            other = rng.choice(begin)
            data[place:end] = other[rng.randrange(len(other) + 1) :][:40]
        else:
            data[place:place] = b" " + rng.choice(_TOKENS) + b" "
    return bytes(data)
