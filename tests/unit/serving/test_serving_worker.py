"""The path of one message without a bus: whatever is in an entry, there is one commit that says it all."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.bus.commit import Commit, Committed
from orion_recall.bus.consumer_loop import Turned
from orion_recall.bus.group_reader import BusClock, Entry
from orion_recall.contracts import RecallDecisionV1, RecallReplyV1, v1_decision
from orion_recall.errors import Overloaded
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse
from orion_recall.recall.types import Sources
from orion_recall.serving.worker import Worker
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key, text_hash
from orion_recall.values import Hit, MemoryView, SearchRequest, SourceName
from tests.samples.recall_fakes import profile
from tests.stand_ins.mesh import MeshDecision, MeshReply, decoded

ENTRY_ID = "1700000000000-5"
ARRIVED = 1_700_000_000.0
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "tenant": TEXT | VALUE,
        "scope": st.sampled_from(["session", "user", "global"]) | VALUE,
        "user": TEXT,
        "k": st.integers(-1, 2000),
        "budget": st.sampled_from(["low", "mid", "high"]) | VALUE,
        "max_tokens": st.integers(0, 100) | VALUE,
        "min_score": st.floats(0, 1) | VALUE,
        "tags": st.lists(TEXT) | VALUE,
        "since": st.sampled_from(["2026-03-01T09:30:00Z", 0, 1e300, -(10**300), "yesterday"]) | VALUE,
        "as_of": st.sampled_from(["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", 0, -1e11]) | VALUE,
        "exclude": st.lists(TEXT) | VALUE,
        "include": st.dictionaries(st.sampled_from(["trace", "entities", "chunks", "x"]), st.booleans()) | VALUE,
    },
)
PAYLOAD = st.fixed_dictionaries(
    {},
    optional={
        "fragment": st.just("Who feeds the gulls?") | TEXT | VALUE,
        "verb": TEXT | VALUE,
        "intent": TEXT | VALUE,
        "session_id": TEXT | VALUE,
        "profile": st.sampled_from(["test.v1", "other.v1"]) | VALUE,
        "reply_to": TEXT | VALUE,
        "options": OPTIONS | VALUE,
    },
)


class Commits:
    """Keeps what is committed."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []

    async def commit(self, commit: Commit) -> Committed:
        self.commits.append(commit)
        return "committed"


class Gulls:
    """Finds one memory, or raises."""

    name: SourceName = "vector"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.key: int | None = None  # that of its memory, where it is none of ours
        self.asked: list[SearchRequest] = []

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        self.asked.append(request)
        if self.error is not None:
            raise self.error
        text = "The lighthouse keeper feeds the gulls."
        memory = MemoryView(id="m-gulls", text=text, text_hash=text_hash(text))
        key = memory_key(request.scope.tenant, memory.id) if self.key is None else self.key
        return [Hit(key=key, score=0.9, read=lambda: memory)]


class Desk:
    """A worker with everything around it in reach."""

    def __init__(
        self, *, error: Exception | None = None, server_time: Callable[[], float] | None = None, **settings: Any
    ) -> None:
        self.commits, self.source = Commits(), Gulls(error)
        self.now = ARRIVED + 0.01
        self.used: list[tuple[str, list[str]]] = []
        profiles = [
            profile(profile=name, rdf_top_k=0, enable_sql_timeline=False) for name in ("test.v1", "other.v1")
        ]
        self.worker = Worker(
            Settings(default_profile="test.v1", **settings),
            self.commits,
            Sources(by_name={"vector": self.source}, tokens=TOKENS),
            ProfilesInUse({one.profile: LoadedProfile(profile=one, content_hash=one.profile) for one in profiles}),
            server_time=server_time or (lambda: self.now),
            used=lambda tenant, ids: self.used.append((tenant, list(ids))),
        )

    async def serve(self, payload: object, *, deliveries: int = 1, **envelope: Any) -> Commit:
        """The last commit of one message."""
        await self.worker.serve(self.entry(payload, deliveries=deliveries, **envelope))
        return self.commits.commits[-1]

    def entry(self, payload: object, *, deliveries: int = 1, **envelope: Any) -> Entry:
        whole = {"correlation_id": "c-1", "reply_to": "recall.reply.v1:me", "payload": payload} | envelope
        return Entry(id=ENTRY_ID, fields={b"envelope": json.dumps(whole).encode()}, deliveries=deliveries)


TOKENS = TokenCounter()
QUESTION = {"fragment": "Who feeds the gulls?"}
WITH_OPTIONS: dict[str, Any] = {**QUESTION, "options": {}}


def reply_of(commit: Commit) -> RecallReplyV1:
    return RecallReplyV1.model_validate(json.loads(commit.reply)["payload"])


def decision_of(commit: Commit) -> RecallDecisionV1:
    return RecallDecisionV1.model_validate(json.loads(commit.decision)["payload"])


@given(PAYLOAD)
async def test_whatever_a_payload_holds_there_is_one_commit_with_a_reply_and_a_decision(payload: Any) -> None:
    desk = Desk(tenants=("*",))
    await desk.serve(payload)
    (commit,) = desk.commits.commits
    reply, decision = reply_of(commit), decision_of(commit)
    assert decision.outcome in ("invalid", "refused", "empty", "ok"), decision.error
    told = decision.outcome in ("invalid", "refused") and payload.get("options") not in (None, "")
    assert (reply.error.type if reply.error else None) == (decision.outcome if told else None)
    if payload.get("options") in (None, ""):
        MeshReply.model_validate(json.loads(commit.reply)["payload"])
    MeshDecision.model_validate(v1_decision(decision))
    assert bool(commit.dead_reason) == (decision.outcome == "invalid")
    assert commit.decision.decode("utf-8")


@given(st.dictionaries(st.sampled_from([b"envelope", b"data", b"x"]), st.binary(max_size=100)), st.integers(1, 9))
async def test_whatever_the_fields_hold_there_is_one_commit(fields: dict[bytes, bytes], deliveries: int) -> None:
    desk = Desk()
    await desk.worker.serve(Entry(id=ENTRY_ID, fields=fields, deliveries=deliveries))
    (commit,) = desk.commits.commits
    assert decision_of(commit).outcome == ("failed" if deliveries > 5 else "invalid")
    assert commit.dead_reason.startswith("poison" if deliveries > 5 else "invalid")
    assert commit.address.mode == "shared"


@pytest.mark.parametrize(
    ("include", "used"), [({"trace": True}, []), ({"trace": False}, ["m-gulls"]), ({"entities": True}, ["m-gulls"])]
)
async def test_who_asks_why_memories_are_found_only_looks_at_them(
    include: dict[str, bool], used: list[str]
) -> None:
    desk = Desk()
    commit = await desk.serve(QUESTION | {"options": {"include": include}})
    assert [item.id for item in reply_of(commit).bundle.items] == ["m-gulls"]
    assert desk.used == ([("default", used)] if used else [])


async def test_an_item_of_another_store_is_no_use_of_an_own_memory_with_its_id() -> None:
    desk = Desk()
    desk.source.key = 7
    commit = await desk.serve(WITH_OPTIONS)
    assert [item.id for item in reply_of(commit).bundle.items] == ["m-gulls"]
    assert desk.used == [("default", [])]


async def test_the_unforeseen_is_answered_as_a_failure_without_its_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    commit = await Desk(error=ZeroDivisionError("secret text")).serve(WITH_OPTIONS)
    reply, decision = reply_of(commit), decision_of(commit)
    assert decision.outcome == "failed"
    assert reply.error is not None
    assert "secret" not in f"{reply.error.message} {decision.error}"
    assert any(record.exc_info for record in caplog.records)


async def test_what_there_is_no_time_for_learns_when_to_ask_again_and_what_is_invalid_that_it_is() -> None:
    desk, error = Desk(), Overloaded("overloaded", retry_after_ms=70)
    payloads: list[dict[str, Any]] = [WITH_OPTIONS, {"fragment": 7, "options": {}}] * 20
    await desk.worker.turn_away([Turned(entry=desk.entry(one), error=error) for one in payloads])
    found = [(decision_of(one).outcome, reply_of(one).error) for one in desk.commits.commits]
    assert [outcome for outcome, _ in found] == ["refused", "invalid"] * 20
    assert [told and told.retry_after_ms for _, told in found] == [70, None] * 20
    assert desk.source.asked == []


STRICT: dict[str, Any] = {
    "id": "7d0c2f2e-5a43-4a55-9a60-0f6f3a0b7a01",
    "correlation_id": "0c1f8e5a-63c2-4f0b-a1de-2f9d4c7b8e10",
    "source": {"name": "cortex-exec"},
    "created_at": "2026-03-02T08:15:30Z",
    "trace": {"work": {"steps": [1]}, "baggage": "a=b"},
}


@pytest.mark.parametrize(
    ("payload", "envelope", "outcome"),
    [
        (QUESTION, {}, "ok"),
        (QUESTION | {"fragment": "  "}, {}, "empty"),
        ({"fragment": 7}, {}, "invalid"),
        ({}, {}, "invalid"),
        (QUESTION, {"ttl_ms": 0}, "expired"),
        (QUESTION, {"reply_to": "nowhere"}, "refused"),
        (QUESTION, {"deliveries": 9}, "failed"),
    ],
    ids=str,
)
async def test_whatever_becomes_of_a_query_without_options_a_strict_reader_takes_the_reply(
    payload: dict[str, Any], envelope: dict[str, Any], outcome: str
) -> None:
    desk = Desk()
    commit = await desk.serve(payload, **(STRICT | envelope))
    read = decoded(commit.reply)
    assert (str(read.correlation_id), read.trace) == (STRICT["correlation_id"], STRICT["trace"])
    assert [str(link.correlation_id) for link in read.causality_chain] == [STRICT["correlation_id"]]
    bundle = MeshReply.model_validate(read.payload).bundle
    assert bool(bundle.items) == bool(bundle.rendered) == (outcome == "ok")
    decided = decoded(commit.decision)
    assert decided.correlation_id == read.correlation_id
    assert decision_of(commit).outcome == outcome
    assert bool(decision_of(commit).error) == (outcome not in ("ok", "empty"))
    assert bool(desk.source.asked) == (outcome == "ok")


SECRET = "what did my doctor say?"
UNREADABLE: list[dict[str, Any]] = [
    {"payload": {"fragment": [SECRET]}},
    {"payload": {"fragment": SECRET, "intent": SECRET, "verb": {"it": SECRET}}},
    {"payload": SECRET},
    {"payload": {"fragment": SECRET}, "ttl_ms": SECRET},
    {"payload": {"fragment": SECRET}, "kind": SECRET},
    {"payload": {"fragment": SECRET, "options": {"tags": SECRET, "since": SECRET}}},
]


@pytest.mark.parametrize("mode", ["hash", "none"])
@pytest.mark.parametrize("message", UNREADABLE, ids=str)
async def test_where_query_text_is_not_kept_nothing_of_an_unreadable_message_is(
    message: dict[str, Any], mode: str
) -> None:
    for deliveries in (1, 6):
        desk = Desk(query_text=mode)
        commit = await desk.serve(deliveries=deliveries, **message)
        assert "doctor" not in f"{commit.decision!r} {commit.dead_reason} {commit.reply!r}"
        assert not commit.keep_message
        assert decision_of(commit).outcome == ("failed" if deliveries > 1 else "invalid")
    quoted = await Desk().serve(**message)
    assert quoted.keep_message
    assert "doctor" in f"{quoted.decision!r} {quoted.dead_reason}"


async def test_content_enters_the_log_only_when_that_is_switched_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orion_recall.serving.worker")
    await Desk().serve(QUESTION | {"session_id": "s-1"})
    await Desk(content_capture=True).serve(QUESTION)
    without, with_content = (record.__dict__["fields"] for record in caplog.records)
    assert "gulls" not in json.dumps(without)
    assert (without["session_id"], without["outcome"], without["commit"]) == ("s-1", "ok", "committed")
    assert (without["results"], len(without["scores"])) == (1, 1)
    assert without["latency_ms"] >= 0
    assert with_content["query"] == QUESTION["fragment"]


class WrongClock:
    """The bus's clock as a worker knows it whose own clock is `wrong_s` off."""

    def __init__(self, wrong_s: float) -> None:
        self.monotonic = 50.0
        self.clock = BusClock(monotonic=lambda: self.monotonic, wall=lambda: ARRIVED + wrong_s)
        self.clock.told(ARRIVED + 0.01, asked_at=self.monotonic)


@pytest.mark.parametrize("wrong_s", [-1e8, -10.0, 10.0, 3e8])
async def test_a_worker_whose_clock_is_wrong_answers_in_time_and_with_the_time_of_the_bus(wrong_s: float) -> None:
    wrong = WrongClock(wrong_s)
    desk = Desk(server_time=wrong.clock.earliest)
    commit = await desk.serve(WITH_OPTIONS, ttl_ms=2000)
    assert decision_of(commit).outcome == "ok"
    times = [json.loads(message)["created_at"] for message in (commit.reply, commit.decision)]
    for told in times:
        assert datetime.fromisoformat(told).timestamp() == pytest.approx(ARRIVED + 0.01, abs=0.001)
    assert decision_of(commit).created_at.timestamp() == pytest.approx(ARRIVED + 0.01, abs=0.001)
    wrong.monotonic += 2.0
    assert decision_of(await desk.serve(WITH_OPTIONS, ttl_ms=2000)).outcome == "expired"
