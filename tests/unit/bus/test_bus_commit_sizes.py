from __future__ import annotations

from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError

from orion_recall.bus.commit import Commit, Committer, Limits, ReplyAddress


class OldServer:
    """A server before 7.0: it compiles no script that begins with flags, and runs what it has compiled."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    async def evalsha(self, sha: str, *_: object) -> list[int]:
        if not self.loaded:
            raise NoScriptError("No matching script")
        return [1]

    async def script_load(self, script: str) -> None:
        if script.startswith("#!"):
            raise ResponseError("Error compiling script (new function): user_script:1: unexpected symbol near '#'")
        self.loaded.append(script)


async def test_a_server_that_knows_no_flags_gets_the_script_without_them() -> None:
    server = OldServer()
    committer = Committer(
        cast("Redis", cast("Any", server)),
        stream="s",
        group="g",
        decision_stream="d",
        dead_stream="x",
        limits=Limits(reply_maxlen=10, reply_ttl_s=60, decisions_cap=100),
    )
    commit = Commit(entry_id="1-1", address=ReplyAddress(mode="own", name="r"), reply=b"{}")
    assert await committer.commit(commit) == "committed"
    (script,) = server.loaded
    assert script.startswith("-- Reply, decision")
