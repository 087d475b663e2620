"""Whatever arrives: exactly one reply, exactly one decision with the right outcome, nothing left pending."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from executor import Ended, Executor, pending, rows, until
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.postgres.pool import Connection, Row
from orion_recall.serving.service import Service

QUESTION = {"fragment": "Where does Ana work?"}
WITH_OPTIONS: dict[str, Any] = {**QUESTION, "options": {}}


async def settled(executor: Executor, database: Connection, entry_id: str) -> Ended:
    """All that the query led to, once its decision is in Postgres too: one reply, one decision here and there."""

    async def persisted() -> bool:
        return bool(await database.fetchval("SELECT count(*) FROM recall_decisions WHERE entry_id = $1", entry_id))

    await until(persisted, f"the decision on {entry_id} in Postgres")
    ended = await executor.ended(entry_id)
    stored = await database.fetch("SELECT * FROM recall_decisions WHERE entry_id = $1", entry_id)
    assert len(stored) == 1
    assert same(stored[0], ended.decision)
    assert set(ended.reply["payload"]) >= {"bundle"}
    return ended


def same(row: Row, decision: Mapping[str, Any]) -> bool:
    columns = (
        "outcome",
        "corr_id",
        "error",
        "query",
        "profile",
        "tenant",
        "reply_to",
        "deliveries",
        "unknown_fields",
    )
    return [row[name] for name in columns] == [decision[name] for name in columns]


@dataclass(frozen=True, kw_only=True)
class Odd:
    """A message that is not answered with memories: what it is answered with, and where."""

    fields: dict[str | bytes, str | bytes]
    outcome: str = "invalid"
    says: str
    on_own: bool = False

    @property
    def has_options(self) -> bool:
        """Whether it can be read that its sender gave options, and so reads errors."""
        text = self.fields.get("envelope", "")
        return isinstance(text, str) and '"options": ' in text and self.says != "not JSON"


def odd(
    says: str, payload: object = QUESTION, *, outcome: str = "invalid", on_own: bool = True, **envelope: Any
) -> Odd:
    whole: dict[str, Any] = {"correlation_id": "c-odd", "reply_to": "OWN", "payload": payload} | envelope
    return Odd(fields={"envelope": json.dumps(whole)}, outcome=outcome, says=says, on_own=on_own)


NOTHING: dict[str, Any] = {}
ODD = {
    "wrong JSON": Odd(fields={"envelope": '{"correlation_id": "c-odd", "payload": {'}, says="not JSON"),
    "no JSON at all": Odd(fields={"envelope": b"\xff\xfe\x00\x80"}, says="not JSON"),
    "no field with an envelope": Odd(fields={"payload": json.dumps(QUESTION)}, says="no field `envelope`"),
    "five thousand fields": Odd(fields={f"f{n}": "x" for n in range(5000)}, says="no field `envelope`"),
    "NaN": Odd(
        fields={
            "envelope": '{"correlation_id": "c-odd", "payload": {"fragment": "a", "options": {"min_score": NaN}}}'
        },
        says="NaN is not JSON",
    ),
    "a number beyond all numbers": Odd(
        fields={
            "envelope": '{"correlation_id": "c-odd", "causality_chain": [1e999], "payload": {"fragment": "a"}}'
        },
        says="1e999 is too large",
    ),
    "more nesting than the reader can follow": Odd(fields={"envelope": "[" * 10_000}, says="levels deep"),
    "more nesting than a message needs": Odd(
        fields={"envelope": '{"payload": {"fragment": "a"}, "causality_chain": ' + "[" * 500 + "]" * 500 + "}"},
        says="levels deep",
    ),
    "more bytes than the limit": Odd(
        fields={"envelope": json.dumps({"payload": {"fragment": "x" * 2_000_001}})}, says="at most 2000000 are read"
    ),
    "another kind": odd("envelope.kind: expected recall.query.v1", kind="recall.query.v2"),
    "no fragment": odd("payload.fragment: Field required", payload={"verb": "reflect"}),
    "a number for a verb": odd(
        "payload.verb: Input should be a valid string (got 7)", payload=QUESTION | {"verb": 7}
    ),
    "a time without a zone": odd(
        "payload.options.as_of: the time has no zone", payload=QUESTION | {"options": {"as_of": "2026-03-01T09:30"}}
    ),
    "a time beyond all times": odd("envelope.created_at", created_at=10**300),
    "scope session without a session": odd(
        "session needs payload.session_id", payload=QUESTION | {"options": {"scope": "session"}}
    ),
    **{
        f"the option {name}": odd(
            f"payload.options: there is no field {name!r}; did you mean {right}?",
            payload=QUESTION | {"options": {name: value}},
        )
        for name, value, right in (
            ("tennant", "acme", "tenant"),
            ("Tenant", "acme", "tenant"),
            ("agentId", "a-1", "agent_id"),
            ("user_id", "u-1", "user"),
            ("kind", ["plan"], "kinds"),
            ("minScore", 0.5, "min_score"),
            ("untill", "2026-03-01T09:30:00Z", "until"),
        )
    },
    "an option that is near none": odd(
        "payload.options: there is no field 'zzz'; there are tenant, scope",
        payload=QUESTION | {"options": {"tenant": "default", "zzz": None}},
    ),
    "an unknown part of the reply": odd(
        "payload.options.include: there is no field 'layer'; did you mean layers?",
        payload=QUESTION | {"options": {"include": {"layer": True}}},
    ),
    "options that are a list": odd("payload.options", payload=QUESTION | {"options": ["tenant"]}),
    "a ttl that has run out": odd("the ttl of 0 ms ran out", outcome="expired", ttl_ms=0),
    "a ttl that has run out, with options": odd(
        "the ttl of 0 ms ran out", payload={**QUESTION, "options": NOTHING}, outcome="expired", ttl_ms=0
    ),
    "a tenant that is not served": odd(
        "tenant 'elsewhere' is not served here",
        payload=QUESTION | {"options": {"tenant": "elsewhere"}},
        outcome="refused",
    ),
    "a reply to a stream of another prefix": odd(
        "'other:recall.reply.v1:x' is not an allowed address",
        outcome="refused",
        on_own=False,
        reply_to="other:recall.reply.v1:x",
    ),
    "a reply to the decision stream": odd(
        "is not an allowed address", outcome="refused", on_own=False, reply_to="svc:recall.decision.v1"
    ),
    "a reply to nobody with a scope that lacks its id": odd(
        "session needs",
        payload=QUESTION | {"options": {"scope": "session"}},
        on_own=False,
        reply_to="other:recall.reply.v1:x",
    ),
}


@pytest.mark.parametrize("name", ODD)
async def test_a_message_that_cannot_be_served_is_answered_and_decided_once(
    name: str, executor: Executor, service_database: Connection
) -> None:
    case = ODD[name]
    fields = {key: _addressed(value, executor.reply_to) for key, value in case.fields.items()}
    entry_id = await executor.add(fields)
    ended = await settled(executor, service_database, entry_id)
    assert ended.decision["outcome"] == case.outcome
    assert case.says in ended.decision["error"]
    assert len(ended.own if case.on_own else ended.shared) == 1
    reply = ended.reply
    if case.has_options:
        assert reply["payload"]["error"] == {"type": case.outcome, "message": ended.decision["error"]}
        assert reply["payload"]["bundle"]["stats"]["outcome"] == case.outcome
    else:
        assert "outcome" not in reply["payload"]["bundle"]["stats"]
        assert set(reply["payload"]) == {"bundle"}
    assert reply["payload"]["bundle"]["rendered"] == ""
    assert reply["payload"]["bundle"]["items"] == []
    assert reply["correlation_id"] == "c-odd" or UUID(reply["correlation_id"])
    if case.outcome != "invalid":
        assert ended.letters == []
        return
    (letter,) = ended.letters
    assert letter[b"reason"].decode() == f"invalid: {ended.decision['error']}"
    if name == "more bytes than the limit":
        envelope = _bytes(fields["envelope"])
        assert letter[b"message_head"] == envelope[:4096]
        assert int(letter[b"message_bytes"]) == len(envelope) + len("envelope")
        return
    kept = {key: value for key, value in letter.items() if key.startswith(b"field:")}
    if name == "five thousand fields":  # those behind the first thousand are not read, and nothing is kept in part
        assert kept == {} and int(letter[b"message_bytes"]) > 0
        return
    original = {b"field:" + _bytes(key): _bytes(value) for key, value in fields.items()}
    assert kept == original
    assert letter.get(b"fields_left_out", b"0") == str(max(0, len(original) - 1000)).encode()


def _addressed(value: str | bytes, reply_to: str) -> str | bytes:
    return value.replace('"OWN"', json.dumps(reply_to)) if isinstance(value, str) else value


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


async def test_a_ttl_is_counted_from_the_entrys_own_id(executor: Executor) -> None:
    async def stream_is_a_second_old() -> bool:
        last = (await executor.redis.xinfo_stream(executor.queries))["last-generated-id"]
        return int(last.partition(b"-")[0]) < time.time() * 1000 - 1000

    await until(stream_is_a_second_old, "a second since the last query")
    in_the_past = f"{int(time.time() * 1000) - 900}-0"
    late = executor.message(QUESTION, ttl_ms=500, created_at=time.time() + 3600)
    ended = await executor.ended(await executor.add({"envelope": json.dumps(late)}, entry_id=in_the_past))
    assert ended.decision["outcome"] == "expired"
    assert (await executor.answer(QUESTION, ttl_ms=60_000, created_at="2001-01-01T00:00:00"))["bundle"]["items"]


async def test_an_entry_whose_id_lies_ahead_of_every_date_is_answered_and_so_is_every_one_after_it(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter
) -> None:
    settings = quick_settings(bus_alone.redis_url)
    executor, added = Executor(bus, settings.prefix), list[str]()

    async def settled() -> bool:
        return not await rows(bus, executor.queries) and not await pending(bus, executor.queries)

    async with serving(settings, opened_with(OneMemory(), tokens)):
        message = {"envelope": json.dumps(executor.message(QUESTION, ttl_ms=60_000, correlation_id=str(uuid4())))}
        # The next ids are made by the server, from this one on.
        for entry_id in ("400000000000000-0", "*", f"{2**64 - 1}-0", "*"):
            added.append(await executor.add(message, entry_id=entry_id))
            await until(settled, f"{added[-1]} is answered, decided and acknowledged")
            decided = [json.loads(fields[b"envelope"]) for _, fields in await rows(bus, executor.decisions)]
            assert [one["payload"]["entry_id"] for one in decided] == added
            assert {one["payload"]["outcome"] for one in decided} == {"ok"}
            replies = await executor.replies(executor.reply_to)
            assert len(replies) == len(added)
            (link,) = replies[-1]["causality_chain"]
            assert datetime.fromisoformat(link["created_at"]) <= datetime.now(UTC)
    await executor.close()


async def test_an_address_that_holds_a_key_of_another_type_is_refused_on_the_shared_stream(
    executor: Executor, service_database: Connection
) -> None:
    await executor.redis.set(executor.reply_to, "precious", ex=60)
    ended = await settled(executor, service_database, await executor.ask(WITH_OPTIONS))
    assert ended.decision["outcome"] == "refused"
    assert ended.shared[0]["payload"]["error"]["type"] == "refused"
    assert await executor.redis.get(executor.reply_to) == b"precious"


@pytest.mark.parametrize(
    "text", ["a\x00b", "lone \ud800 surrogate", "both \udfff and \x00"], ids=["NUL", "surrogate", "both"]
)
async def test_text_that_no_store_can_hold_is_answered_and_its_correlation_id_comes_back_as_it_was(
    text: str, executor: Executor, service_database: Connection
) -> None:
    payload = {"fragment": f"Where does {text} work?", "intent": text, "verb": text}
    ended = await settled(executor, service_database, await executor.ask(payload, correlation_id=text))
    assert ended.own[0]["correlation_id"] == text
    assert ended.decision["corr_id"] == text.translate({0: "\ufffd", 0xD800: "\ufffd", 0xDFFF: "\ufffd"})
    assert ended.decision["outcome"] in ("ok", "empty")  # whether anything answers that is another question


async def test_an_unknown_profile_falls_back_to_the_default_one_and_that_is_recorded(
    executor: Executor, service_database: Connection, service: Service
) -> None:
    entry_id = await executor.ask(QUESTION | {"profile": "no.such.v9"})
    ended = await settled(executor, service_database, entry_id)
    used = service.settings.default_profile
    assert ended.own[0]["payload"]["bundle"]["stats"]["profile"] == used
    decided = ended.decision
    assert (decided["profile"], decided["profile_requested"], decided["profile_fallback"]) == (
        used,
        "no.such.v9",
        True,
    )
    assert decided["profile_hash"] == service.profiles[used].content_hash


async def test_a_decision_tells_how_far_the_copies_were_and_which_model_decided(
    executor: Executor, service_database: Connection, service: Service
) -> None:
    decided = (await settled(executor, service_database, await executor.ask(QUESTION))).decision
    assert decided["read_at"] == {part.kind: part.position for part in service.background.projections}
    assert decided["read_at"].keys() == {"index", "graph"}
    embedder = service.opened.embedder
    assert decided["build"]["model"] == embedder.name
    assert decided["build"]["weights"] == embedder.weights_sha256[:12]


async def test_nothing_found_is_empty_and_rendered_is_never_null(executor: Executor, tenant: str) -> None:
    ended = await executor.ended(await executor.ask(QUESTION | {"options": {"tenant": tenant}}))
    assert ended.decision["outcome"] == "empty"
    assert ended.own[0]["payload"]["bundle"]["rendered"] == ""
    assert ended.own[0]["payload"]["bundle"]["items"] == []


async def test_the_same_message_sent_twice_is_two_entries_and_answered_twice(executor: Executor) -> None:
    message = {"envelope": json.dumps(executor.message(QUESTION, correlation_id="c-twice"))}
    first = await executor.ended(await executor.add(message))
    second = await executor.ended(await executor.add(message))
    assert first.decision["id"] != second.decision["id"]
    replies = await executor.replies(executor.reply_to)
    assert [reply["correlation_id"] for reply in replies] == ["c-twice", "c-twice"]


async def test_an_entry_that_has_killed_its_workers_is_answered_decided_and_set_aside(
    executor: Executor, service: Service, service_database: Connection
) -> None:
    fields = {"envelope": json.dumps(executor.message(WITH_OPTIONS))}
    entry_id = await executor.hand_to_a_dead_worker(fields, deliveries=service.settings.max_deliveries)
    ended = await settled(executor, service_database, entry_id)
    assert ended.decision["outcome"] == ended.own[0]["payload"]["error"]["type"] == "failed"
    assert ended.decision["deliveries"] == service.settings.max_deliveries + 1
    assert "delivered 5 times without an answer" in ended.decision["error"]
    (letter,) = ended.letters
    assert letter[b"reason"].startswith(b"poison: delivered 5 times")
    assert letter[b"field:envelope"] == fields["envelope"].encode()


async def test_an_entry_of_a_dead_worker_is_taken_over_and_answered(executor: Executor) -> None:
    fields = {"envelope": json.dumps(executor.message(QUESTION))}
    ended = await executor.ended(await executor.hand_to_a_dead_worker(fields))
    assert (ended.decision["outcome"], ended.decision["deliveries"]) == ("ok", 2)
