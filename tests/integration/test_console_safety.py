"""What visitors of the console cannot do: harm a text, see another tenant, or take what others need."""

from __future__ import annotations

import asyncio
import html
import json
import re
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from console_visits import console, decided, form_token
from executor import until
from serving import caught_up

from orion_recall.client import RecallClient
from orion_recall.console import server
from orion_recall.console.access import new_token, token_hash
from orion_recall.postgres.pool import Connection
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from orion_recall.shipped import shipped_folder

pytestmark = pytest.mark.slow


@pytest.fixture
async def browser(service: Service) -> AsyncGenerator[httpx.AsyncClient]:
    async with console(service) as opened:
        yield opened


@asynccontextmanager
async def visitor(
    service: Service, folder: Path, tenant: str, may: str = '["recall", "delete"]'
) -> AsyncGenerator[tuple[httpx.AsyncClient, Path]]:
    """A browser that has signed in for one tenant, and the file of its token."""
    token, file = new_token(), folder / "tokens.toml"
    file.write_text(
        f'[[tokens]]\nname = "ana"\nsha256 = "{token_hash(token)}"\ntenant = "{tenant}"\nmay = {may}\n', "utf-8"
    )
    file.chmod(0o600)
    async with console(service, console_tokens=file) as opened:
        assert (await opened.post("/sign-in", data={"token": token})).status_code == 303
        yield opened, file


def filled(page: str, name: str) -> str:
    """What a browser sends of a text that nobody touched: with its line ends."""
    area = re.search(rf'<textarea id="{name}"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert area is not None, name
    return html.unescape(area[1]).replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")


async def test_the_text_of_a_profile_is_saved_as_it_is_and_never_through_a_link_to_elsewhere(
    service: Service, tmp_path: Path
) -> None:
    text = (shipped_folder("profiles") / "reflect.v1.yaml").read_text("utf-8") + "# \u05e9\u200f & <b>\n"
    folder, elsewhere = tmp_path / "profiles", tmp_path / "elsewhere.yaml"
    folder.mkdir()
    (folder / "reflect.v1.yaml").write_text(text, "utf-8")
    elsewhere.write_text(text.replace("reflect.v1", "linked"), "utf-8")
    (folder / "linked.yaml").symlink_to(elsewhere)
    async with console(service, profiles_dir=folder, console_saves_profiles=True) as own:
        page = (await own.get("/profiles/reflect.v1")).text
        sent = filled(page, "text")
        form = {"form_token": form_token(page), "before": sha256(text.encode()).hexdigest(), "action": "save"}
        saved = await own.post("/profiles/reflect.v1", data=form | {"text": sent + "# more\n"})
        assert saved.status_code == 303
        assert (folder / "reflect.v1.yaml").read_text("utf-8") == text + "# more\n"
        before = elsewhere.read_text("utf-8")
        form["before"] = sha256(before.encode()).hexdigest()
        refused = await own.post("/profiles/linked", data=form | {"text": before + "# more\n"})
        assert (refused.status_code, "a link to a place outside the folder" in refused.text) == (403, True)
    assert elsewhere.read_text("utf-8") == before


async def test_a_visitor_of_one_tenant_learns_no_id_of_another_and_changes_nothing_for_it(
    service: Service, client: RecallClient, service_database: Connection, tenant: str, tmp_path: Path
) -> None:
    others = await decided(service_database, client, "Whose secret crane is this?")
    own = await decided(service_database, client, "Whose own crane is this?", tenant=tenant)
    receipt = await client.store([{"id": "m-1", "text": "The lamp is red.", "tenant": tenant}])
    await caught_up(service, receipt.position or 0)
    async with visitor(service, tmp_path, tenant) as (browser, _):
        told = await browser.get("/decisions", params={"id": others[:20]})
        assert others not in told.headers["location"]
        found = await browser.get("/decisions", params={"id": own[:20]})
        assert found.headers["location"] == f"/decisions/{own}"
        token = form_token((await browser.get("/memory", params={"id": "m-1"})).text)
        abroad = {"form_token": token, "tenant": "default", "id": "m-crane", "version": "1", "sure": "yes"}
        assert (await browser.post("/memory/delete", data=abroad)).status_code == 404
        asked = {"form_token": token, "query": "Whose crane?", "tenant": "default"}
        assert (await browser.post("/ask", data=asked)).status_code == 404


@pytest.mark.parametrize("end", ["taken out", "narrowed", "too old"])
async def test_a_live_list_ends_with_what_its_token_allowed(
    service: Service, tenant: str, tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visitor(service, tmp_path, "*") as (browser, file), browser.stream("GET", "/now/stream") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == ": decisions"
        text = file.read_text("utf-8")
        if end == "too old":
            monkeypatch.setattr("orion_recall.console.access.LIFETIME_S", -1)
        elif end == "narrowed":
            file.write_text(text.replace('tenant = "*"', f'tenant = "{tenant}"'), "utf-8")
        else:
            file.write_text(re.sub('sha256 = "[0-9a-f]*"', f'sha256 = "{token_hash(new_token())}"', text), "utf-8")
        rest = [line async for line in lines]
        assert not any(line.startswith("data: <tr") for line in rest)


async def test_of_live_lists_that_are_opened_at_once_only_so_many_are_let_in(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.console.decision._streams", asyncio.Semaphore(3))
    request = f"GET /now/stream HTTP/1.1\r\nhost: localhost:{browser.base_url.port}\r\n\r\n".encode()
    async with opened(browser, 9) as streams:
        for _, writer in streams:
            writer.write(request)
        statuses = [(await reader.readline()).split()[1] for reader, _ in streams]
    assert sorted(statuses) == [b"200"] * 3 + [b"503"] * 6

    async def is_free() -> bool:
        async with browser.stream("GET", "/now/stream") as stream:
            return stream.status_code == 200

    await until(is_free, "a place for a live list")


async def test_a_request_that_does_not_come_ends_its_connection(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = f"GET /static/console.css HTTP/1.1\r\nhost: localhost:{browser.base_url.port}\r\n\r\n".encode()
    async with opened(browser, 1) as ((second, second_writer),):
        second_writer.write(whole)
        head = await second.readuntil(b"\r\n\r\n")
        assert b"200 OK" in head
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        await second.readexactly(int(length[1]))
        # Not before: on a busy machine the whole request would take longer than that.
        monkeypatch.setattr("orion_recall.console.server.HEAD_S", 0.1)
        async with opened(browser, 2) as ((silent, _), (half, half_writer)):
            half_writer.write(whole[:-2])
            second_writer.write(whole[:-2])
            for reader in (silent, half, second):
                await all_of(reader)


async def test_beyond_so_many_connections_none_is_taken(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.console.server.MOST_CONNECTIONS", 3)
    request = f"GET /static/console.css HTTP/1.1\r\nhost: localhost:{browser.base_url.port}\r\n\r\n".encode()
    async with opened(browser, 3) as streams:
        for reader, writer in streams:
            writer.write(request)
            assert b"200 OK" in await reader.readline()
        async with opened(browser, 1) as ((refused, _),):
            assert await all_of(refused) == b""

    async def is_taken() -> bool:
        return (await browser.get("/static/console.css")).status_code == 200

    await until(is_taken, "a connection")


@asynccontextmanager
async def unread(port: int | None, count: int, request: bytes) -> AsyncGenerator[list[socket.socket]]:
    """So many connections that have sent a request, and read nothing."""
    assert port is not None
    made: list[socket.socket] = []
    try:
        for _ in range(count):
            one = socket.socket()
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", port))
            one.sendall(request)
        yield made
    finally:
        for one in made:
            one.close()


@pytest.mark.parametrize("times", [1, 2, 500])
@pytest.mark.parametrize(
    "path", ["/static/console.css", "/static/../static/console.css", "/", "/nowhere", "/now/stream"]
)
async def test_who_never_reads_keeps_nobody_out(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str, times: int
) -> None:
    listening = server._listening  # pyright: ignore[reportPrivateUsage]

    @contextmanager
    def with_small_buffers(settings: Settings) -> Generator[socket.socket]:
        with listening(settings) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            yield made

    monkeypatch.setattr(server, "_listening", with_small_buffers)
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(server, "TAKEN_S", 0.1)
    monkeypatch.setattr(server, "HEAD_S", 0.1)
    async with console(service) as browser:
        request = f"GET {path} HTTP/1.1\r\nhost: localhost:{browser.base_url.port}\r\n\r\n".encode()
        async with unread(browser.base_url.port, 3, request * times):

            async def is_taken() -> bool:
                try:
                    return (await browser.get("/static/icon.svg")).status_code == 200
                except httpx.TransportError:
                    return False

            if path != "/now/stream":  # there little is sent: live lists have a limit of their own
                await until(is_taken, "a connection")


async def test_a_request_behind_another_one_is_not_answered(browser: httpx.AsyncClient) -> None:
    request = f"GET /static/icon.svg HTTP/1.1\r\nhost: localhost:{browser.base_url.port}\r\n\r\n".encode()
    async with opened(browser, 1) as ((reader, writer),):
        writer.write(request * 3)
        assert (await all_of(reader)).count(b"HTTP/1.1 200 OK") == 1
    for _ in range(3):  # one after the other they are
        assert (await browser.get("/static/icon.svg")).status_code == 200


async def test_a_session_that_signed_out_is_over_and_its_forms_are_no_others(
    service: Service, tenant: str, tmp_path: Path
) -> None:
    async with visitor(service, tmp_path, tenant) as (one, file):
        token = new_token()
        file.write_text(
            re.sub('sha256 = "[0-9a-f]*"', f'sha256 = "{token_hash(token)}"', file.read_text("utf-8")), "utf-8"
        )
        one.cookies.clear()
        async with httpx.AsyncClient(base_url=one.base_url, timeout=30) as other:
            for each in (one, other):
                assert (await each.post("/sign-in", data={"token": token})).status_code == 303
            mine, theirs = [form_token((await each.get("/ask")).text) for each in (one, other)]
            assert mine != theirs
            asked = {"query": "Whose crane?", "form_token": mine}
            assert (await other.post("/ask", data=asked)).status_code == 403
            cookies = dict(one.cookies)
            assert (await one.post("/sign-out", data={"form_token": theirs})).status_code == 403
            assert (await one.post("/sign-out", data={"form_token": mine})).status_code == 303
            one.cookies.update(cookies)
            assert (await one.get("/")).status_code == 401
            assert (await one.post("/ask", data=asked)).status_code == 401
            assert (await other.get("/")).status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 200_000,
        '{"changed": ' + "[" * 100_000,
        "9" * 5000,
        '{"queries": 1e999}',
        "null",
        "\x00",
    ],
    ids=lambda text: f"{text[:12]} {len(text)}",
)
async def test_a_file_that_is_no_report_is_refused_and_nothing_fails(
    service: Service, tmp_path: Path, text: str
) -> None:
    (tmp_path / "replays").mkdir()
    (tmp_path / "replays" / "mine.json").write_text(text, "utf-8")
    async with console(service, data_dir=tmp_path) as browser:
        assert (await browser.get("/replays/mine.json")).status_code == 400


@pytest.mark.parametrize("field", ["control_against_logged", "tried", "apart", "not_replayable", "changed", "gate"])
@pytest.mark.parametrize(
    "value", ["[" * 150 + "]" * 150, "{}", '{"means": {"x": [1, 2, 3, 4]}}', "[{}]", '"x"', "[[]]", "7"]
)
async def test_a_report_with_an_odd_part_is_refused_or_shown(
    service: Service, tmp_path: Path, field: str, value: str
) -> None:
    (tmp_path / "replays").mkdir()
    told: dict[str, object] = {"queries": 1, "matching": 1, "k": 5, "control_against_logged": {}}
    text = json.dumps({**told, field: "HERE"}).replace('"HERE"', value)
    (tmp_path / "replays" / "mine.json").write_text(text, "utf-8")
    async with console(service, data_dir=tmp_path) as browser:
        assert (await browser.get("/replays/mine.json")).status_code in (200, 400)


async def test_a_picture_is_of_some_names(browser: httpx.AsyncClient) -> None:
    names = [f"n{number}" for number in range(65)]
    assert (await browser.get("/graph/picture", params={"entities": ",".join(names)})).status_code == 400
    assert (await browser.get("/graph/picture", params={"entities": ",".join(names[:64])})).status_code == 404


@pytest.mark.parametrize(
    "words",
    [
        "-" * 5000,
        "- " * 5000,
        '"' * 5001,
        "-a " * 5000,
        "a or " * 5000,
        "(" * 5000,
        "!" * 5000,
        "x" * 6000,
        "\x00\ud800",
    ],
    ids=lambda words: f"{words[:6]!r} {len(words)}",
)
async def test_words_that_cannot_be_searched_for_are_said_to_be(browser: httpx.AsyncClient, words: str) -> None:
    address = f"/memories?words={quote(words, errors='replace')}"
    answer = await browser.get(address)
    assert answer.status_code in (200, 400), answer.text


@pytest.mark.parametrize(
    ("part", "value"), [("options", ["k"]), ("options", "k"), ("clock", "nonsense"), ("scope", 3)]
)
async def test_a_damaged_decision_says_that_it_cannot_be_asked_again(
    browser: httpx.AsyncClient,
    client: RecallClient,
    service_database: Connection,
    tenant: str,
    part: str,
    value: object,
) -> None:
    name = await decided(service_database, client, "Which valve leaks?", tenant=tenant)
    await service_database.execute(
        "UPDATE orion_recall.recall_decisions SET candidates = NULL, asked = asked || $2::jsonb"
        " WHERE id = $1::text::uuid",
        name,
        json.dumps({part: value}),
    )
    form = {"form_token": form_token((await browser.get(f"/decisions/{name}")).text), "again": name}
    asked = await browser.post("/ask", data=form | {"query": "Which valve leaks?"})
    assert (asked.status_code, "This decision cannot be asked again" in asked.text) == (400, True)
    explained = await browser.post(f"/decisions/{name}/explain", data=form)
    assert (explained.status_code, "it cannot be asked again" in explained.text) == (200, True)
    lost = await browser.post(f"/decisions/{name}/why-not", data=form | {"memory": uuid4().hex})
    assert (lost.status_code, "There is no memory" in lost.text) == (200, True)


async def all_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other end goes; an end by force is one, too."""
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        return b""


@asynccontextmanager
async def opened(
    browser: httpx.AsyncClient, count: int
) -> AsyncGenerator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """So many connections to the console."""
    port = browser.base_url.port
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        yield streams
    finally:
        for _, writer in streams:
            writer.transport.abort()
