"""The SPARQL protocol against servers that answer as they are told, late, wrongly, or never."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from orion_recall.errors import SettingsError, SourceError, TransientSourceError
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from tests.stand_ins.servers import Answer, Asked, StandIn, answering, hanging

QUERY = "SELECT ?secret_text WHERE { ?s ?p ?secret_text }"
MEDIA_TYPE = "application/sparql-results+json"
# Of twelve connections that four rounds of cancelled queries open; on a busy machine three were dropped once.
_DROPPED = 6


def results(*rows: dict[str, dict[str, str]]) -> bytes:
    names = sorted({name for row in rows for name in row})
    return json.dumps({"head": {"vars": names}, "results": {"bindings": rows}}).encode()


ONE = results({"a": {"type": "literal", "value": 'ü\n"1"'}, "b": {"type": "uri", "value": "urn:x:1"}})


@asynccontextmanager
async def client_of(
    stand_in: StandIn, *, user: str | None = None, password: str | None = None, **limits: Any
) -> AsyncGenerator[SparqlClient]:
    secret = SecretStr(password) if password is not None else None
    server = SparqlServer(url=f"{stand_in.url}/query?key=hunter2", user=user, password=secret)
    client = SparqlClient(server, **limits)
    try:
        yield client
    finally:
        await client.close()


def told(**answer: Any) -> Callable[[Asked], Answer]:
    made = replace(Answer(media_type=MEDIA_TYPE, body=ONE), **answer)
    return lambda _: made


async def gone(stand_in: StandIn, *, but: int = 0) -> None:
    """Returns once no client is connected, or no more than some.

    What connects a request for the client may drop a connection that is made in the very turn of the loop in which
    the request is cancelled: then it is closed when it is collected, and where the loop still knows it, not at all.
    """
    async with asyncio.timeout(30):
        while len(stand_in.connections) > but:
            gc.collect()
            await asyncio.sleep(0.05)


async def test_a_query_is_posted_as_such_and_its_rows_come_back_as_text():
    rows = results({"a": {"type": "literal", "value": "1"}}, {"b": {"type": "bnode", "value": "x"}}, {})
    async with answering(told(body=rows, media_type=f"{MEDIA_TYPE}; charset=utf-8")) as stand_in:
        async with client_of(stand_in) as client:
            assert await client.select(QUERY) == [{"a": "1"}, {"b": "x"}, {}]
        (asked,) = stand_in.asked
        assert (asked.method, asked.path, asked.body.decode()) == ("POST", "/query?key=hunter2", QUERY)
        assert asked.headers["content-type"] == "application/sparql-query; charset=utf-8"
        assert asked.headers["accept"] == MEDIA_TYPE
        assert "authorization" not in asked.headers
        await gone(stand_in)


@pytest.mark.parametrize(
    ("url", "update_url", "expected"),
    [
        ("http://h:7878/query", None, "http://h:7878/update"),
        ("http://h/ds/query?x=1", None, "http://h/ds/update?x=1"),
        ("http://h/sparql", None, "http://h/sparql"),
        ("http://h/repositories/r", "http://h/repositories/r/statements", "http://h/repositories/r/statements"),
    ],
)
def test_the_update_address_is_the_given_one_or_follows_from_the_query_address(
    url: str, update_url: str | None, expected: str
):
    assert SparqlServer(url=url, update_url=update_url).updates_at == expected


async def test_credentials_are_sent_with_queries_and_updates():
    async with answering(told()) as stand_in:
        async with client_of(stand_in, user="ana", password="päss:w") as client:
            await client.select(QUERY)
            await client.update("CLEAR DEFAULT")
        basic = "Basic " + base64.b64encode("ana:päss:w".encode()).decode()
        assert [asked.headers["authorization"] for asked in stand_in.asked] == [basic] * 2
        bearer = SparqlClient(SparqlServer(url=f"{stand_in.url}/query", token=SecretStr("t0k.en")))
        await bearer.select(QUERY)
        await bearer.close()
        assert stand_in.asked[-1].headers["authorization"] == "Bearer t0k.en"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"user": "ana"}, "set both or neither"),
        ({"password": SecretStr("hunter2")}, "set both or neither"),
        ({"user": "a:b", "password": SecretStr("hunter2")}, "no colon"),
        ({"token": SecretStr("hunter2"), "user": "a", "password": SecretStr("hunter2")}, "ORION_SPARQL_TOKEN"),
        ({"token": SecretStr("hunter2\r\nX: y")}, "one word"),
        ({"token": SecretStr("")}, "one word"),
    ],
    ids=str,
)
def test_credentials_that_cannot_be_right_are_refused_by_name(fields: dict[str, Any], said: str):
    with pytest.raises(SettingsError, match=said) as refused:
        SparqlServer(url="http://h/query", **fields)
    assert "hunter2" not in str(refused.value)


WRONG: dict[str, tuple[dict[str, Any], str, bool]] = {
    "busy": ({"status": 503}, "answers 503: it is overloaded", True),
    "too many requests": ({"status": 429}, "answers 429", True),
    "an error": ({"status": 500, "body": b"secret_text"}, "answers 500 to a SPARQL query", False),
    "no SPARQL": ({"status": 400, "body": b"secret_text"}, "answers 400 to a SPARQL query", False),
    "wrong credentials": ({"status": 401}, "answers 401: it refuses the credentials.*ORION_SPARQL_TOKEN", False),
    "forbidden": ({"status": 403}, "answers 403", False),
    "not there": ({"status": 404}, "answers 404.*ORION_SPARQL_URL", False),
    "moved": ({"status": 301, "headers": {"Location": "http://elsewhere/"}}, "it has moved", False),
    "a web page": ({"media_type": "text/html", "body": b"<p>secret_text"}, "'text/html', no results", False),
    "compressed": ({"headers": {"Content-Encoding": "gzip"}}, "compressed", False),
    "no JSON": ({"body": b"secret_text"}, "other than the results of a SELECT", False),
    "no text": ({"body": b"\xff\xfe"}, "other than the results of a SELECT", False),
    "a list": ({"body": b"[1]"}, "other than the results of a SELECT", False),
    "a boolean": ({"body": b'{"head": {}, "boolean": true}'}, "other than the results of a SELECT", False),
    "rows that are none": (
        {"body": b'{"head": {"vars": []}, "results": {"bindings": [7]}}'},
        "other than the results of a SELECT",
        False,
    ),
    "terms of no kind": (
        {"body": results({"a": {"type": "triple", "value": "secret_text"}})},
        "other than the results of a SELECT",
        False,
    ),
    "very deep": ({"body": b"[" * 100_000}, "other than the results of a SELECT", False),
    "cut short": ({"headers": {"Content-Length": "100000"}, "drip_s": 0.01}, "broke off|no answer", True),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_answer_is_an_error_that_says_what_to_do_and_repeats_nothing(name: str):
    answer, said, passes = WRONG[name]
    longest_s = 1.0 if name == "cut short" else 30.0  # a busy machine answers late, and that is another error
    async with answering(told(**answer)) as stand_in, client_of(stand_in, query_timeout_s=longest_s) as client:
        with pytest.raises(SourceError, match=said) as failed:
            await client.select(QUERY)
        assert isinstance(failed.value, TransientSourceError) == passes
        assert f"127.0.0.1:{stand_in.port}/query" in str(failed.value)
        assert "secret_text" not in str(failed.value)
        assert "hunter2" not in str(failed.value)
        stand_in.answer = told()
        assert len(await _answer_at_last(client)) == 1


@pytest.mark.parametrize("length", ["said", "unsaid"])
async def test_a_huge_answer_is_left_unread(length: str):
    headers = {"Connection": "close"} if length == "unsaid" else {}
    body = b" " * 5_000_000 + ONE
    answer = told(body=body, headers=headers)
    async with answering(answer) as stand_in, client_of(stand_in) as client:
        client.max_bytes = 100_000
        with pytest.raises(SourceError, match="more than 100,000 bytes"):
            await client.select(QUERY)
        await gone(stand_in)


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
async def test_cancelled_queries_close_their_connections_and_leave_their_places():
    async with hanging() as stand_in, client_of(stand_in, connections=3) as client:
        before = asyncio.all_tasks()
        for pause_s in (0.0, 0.001, 0.01, 0.1):
            waiting = [asyncio.create_task(client.select(QUERY)) for _ in range(12)]
            await asyncio.sleep(pause_s)
            for task in waiting:
                task.cancel()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(error, asyncio.CancelledError) for error in ended)
        await gone(stand_in, but=_DROPPED)
        stand_in.answer = told()
        answered = await asyncio.gather(*(_answer_at_last(client) for _ in range(12)))
        assert answered == [await client.select(QUERY)] * 12
        assert len(stand_in.connections) <= 3 + _DROPPED
        left = asyncio.all_tasks() - before
        assert [task for task in left if "talk" not in repr(task)] == []


async def _answer_at_last(client: SparqlClient) -> Any:
    """The answer, in a minute at most: on a busy machine a place in the pool may take longer than a query waits."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await client.select(QUERY)
            except TransientSourceError:
                await asyncio.sleep(0.01)


async def test_a_server_that_is_not_there_is_a_passing_error():
    async with answering(told()) as stand_in:
        pass
    async with client_of(stand_in) as client:
        with pytest.raises(TransientSourceError, match=r"cannot be reached: .+") as failed:
            await client.select(QUERY)
        assert "hunter2" not in str(failed.value)
