"""Inputs for what reads texts of others: valid ones that are changed at random."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from orion_recall.shipped import shipped_folder

_TESTS = Path(__file__).parents[1]
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
