"""Executors with a strict envelope, codec and contracts: whatever they ask, they can read what comes back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import cycle
from typing import Any
from uuid import uuid4

import pytest
from executor import Executor, until

from orion_recall.contracts import RecallDecisionV1, v1_decision
from tests.stand_ins.mesh import FOUNDING, LATER, MeshDecision, MeshEnvelope, MeshExecutor, MeshReply, decoded

FRAGMENT = "Where does Ana work?"
STATES = {"founding": FOUNDING, "later": LATER}
PREFIXES = (FOUNDING.reply_prefix, LATER.reply_prefix, "orion:orch:result:RecallService")


@pytest.fixture(params=STATES.values(), ids=list(STATES))
def mesh(request: pytest.FixtureRequest, executor: Executor) -> MeshExecutor:
    """A strict executor of one state of the mesh, on the running service's bus."""
    return MeshExecutor(executor.redis, request.param, prefix=executor.prefix)


def fragment_of(mesh: MeshExecutor, reply_to: str, **changes: Any) -> MeshEnvelope:
    return mesh.message(changes.pop("fragment", FRAGMENT), reply_to=reply_to, **changes)


async def read_back(executor: Executor, asked: MeshEnvelope, entry_id: str, reply: bytes | str) -> MeshReply:
    """The reply as the executor reads it; pydantic's ValidationError where it would refuse any of it."""
    read = decoded(reply)
    assert read.correlation_id == asked.correlation_id
    assert read.trace == asked.trace
    *theirs, own = read.causality_chain
    assert theirs == asked.causality_chain
    assert (own.correlation_id, own.kind, own.source) == (asked.correlation_id, asked.kind, asked.source)
    decision = (await executor.ended(entry_id)).decision
    MeshDecision.model_validate(v1_decision(RecallDecisionV1.model_validate(decision)))
    return MeshReply.model_validate(read.payload)


# What they ask, and what the decision on it says.
ASKED: Mapping[str, tuple[dict[str, Any], str]] = {
    "a question": ({}, "ok"),
    "the other kind": ({"kind": "recall.query.request"}, "ok"),
    "a trace and a chain of their own": (
        {
            "trace": {"trace_id": "t-7", "work": {"steps": [1, {"a": None}]}, "baggage": {"lane": "chat"}},
            "causality_chain": [
                {
                    "correlation_id": "7d0c2f2e-5a43-4a55-9a60-0f6f3a0b7a01",
                    "kind": "cortex.orch.request",
                    "source": {"name": "cortex-orch", "node": "athena"},
                    "created_at": "2026-03-02T08:15:30Z",
                }
            ],
        },
        "ok",
    ),
    "empty strings": ({"session_id": "", "node_id": "", "verb": "", "intent": "", "profile": ""}, "ok"),
    "an empty fragment": ({"fragment": ""}, "empty"),
    "a fragment of spaces": ({"fragment": " \n "}, "empty"),
    "a wrong type": ({"verb": 7}, "invalid"),
    "hints of odd types": ({"exclude": "m-1", "lane": 7, "task_hints": 7, "recall_phase": []}, "ok"),
    "a ttl that has run out": ({"ttl_ms": 0}, "expired"),
    "another kind": ({"kind": "recall.query.v9"}, "invalid"),
}


# How a query came has nothing to do with what is in it: each content comes in one way, and each way comes up.
FIELDS = ("envelope", "data", "queue")
WAYS = tuple(zip(ASKED, cycle(FIELDS)))
CHANNELS = tuple(zip(ASKED, cycle(PREFIXES)))


@pytest.mark.parametrize(("name", "field"), WAYS)
async def test_a_reply_on_a_stream_is_what_a_strict_executor_reads(
    name: str, field: str, mesh: MeshExecutor, executor: Executor
) -> None:
    changes, outcome = ASKED[name]
    asked = fragment_of(mesh, executor.reply_to, **changes)
    if field == "queue":
        entry_id = await mesh.enqueue(asked)
    else:
        entry_id = await executor.add({field: asked.model_dump_json(by_alias=True)})
    ended = await executor.ended(entry_id)
    assert ended.decision["outcome"] == outcome, ended.decision["error"]
    (reply,) = ended.own
    answer = await read_back(executor, asked, entry_id, json.dumps(reply))
    assert ("Fjord Labs" in answer.bundle.rendered) == (outcome == "ok")


@pytest.mark.parametrize(("name", "prefix"), CHANNELS)
async def test_a_reply_on_a_channel_is_what_a_strict_executor_reads(
    name: str, prefix: str, mesh: MeshExecutor, executor: Executor
) -> None:
    changes, outcome = ASKED[name]
    channel = f"{executor.prefix}{prefix}:{uuid4()}"
    asked = fragment_of(mesh, channel, **changes)
    async with executor.listening(channel) as heard:
        entry_id = await mesh.enqueue(asked)
        ended = await executor.ended(entry_id)

        async def came() -> bool:
            return bool(heard)

        await until(came, "a published reply")
    assert ended.decision["outcome"] == outcome
    assert (len(heard), ended.own, ended.shared) == (1, [], [])
    await read_back(executor, asked, entry_id, json.dumps(heard[0]))


async def test_the_turn_that_is_being_answered_is_not_shown(executor: Executor) -> None:
    later = MeshExecutor(executor.redis, LATER, prefix=executor.prefix)

    async def recalled(exclude: dict[str, Any]) -> list[str]:
        asked = later.message(FRAGMENT, reply_to=executor.reply_to, exclude=exclude)
        ended = await executor.ended(await later.enqueue(asked))
        assert ended.decision["outcome"] in ("ok", "empty")  # without the turn hardly anything answers
        answer = await read_back(executor, asked, ended.decision["entry_id"], json.dumps(ended.own[0]))
        return [item.id for item in answer.bundle.items]

    nothing: dict[str, Any] = {"active_turn_ids": [], "active_turn_text": "", "active_turn_ts": None}
    every = await recalled(nothing)
    assert every[0] == "m-work"
    assert "m-work" not in await recalled(nothing | {"active_turn_ids": ["m-work"]})
