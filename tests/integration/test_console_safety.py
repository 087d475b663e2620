"""What visitors of the console cannot do: harm a text, see another tenant, or take what others need."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from console_visits import console, decided, form_token
from executor import until
from serving import caught_up

from orion_recall.client import RecallClient
from orion_recall.console.access import new_token, token_hash
from orion_recall.postgres.pool import Connection
from orion_recall.serving.service import Service
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
