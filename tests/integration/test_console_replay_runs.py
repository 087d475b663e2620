"""Replays that are started on a profile's page."""

from __future__ import annotations

import html
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from console_visits import console, decided, form_token
from executor import until
from pydantic import SecretStr
from serving import caught_up

from orion_recall.client import RecallClient
from orion_recall.console.access import new_token, token_hash
from orion_recall.console.replay_process import Replay, Replaying
from orion_recall.postgres.pool import Connection
from orion_recall.serving.service import Service
from orion_recall.shipped import shipped_folder

pytestmark = pytest.mark.slow

TEXT = (shipped_folder("profiles") / "reflect.v1.yaml").read_text("utf-8")
EDITED = TEXT.replace("max_total_items: 12", "max_total_items: 1", 1)


async def asked(service: Service, client: RecallClient, database: Connection, tenant: str) -> str:
    """The decision on a question about two memories of the tenant."""
    texts = {"m-red": "The red valve leaks.", "m-blue": "The blue valve of the pump leaks badly."}
    receipt = await client.store([{"id": name, "text": text, "tenant": tenant} for name, text in texts.items()])
    await caught_up(service, receipt.position or 0)
    return await decided(database, client, "Which valve leaks?", tenant=tenant)


async def replay_form(browser: httpx.AsyncClient, tenant: str) -> dict[str, str]:
    page = (await browser.get("/profiles/reflect.v1")).text
    assert 'value="replay"' in page
    return {"form_token": form_token(page), "action": "replay", "text": EDITED, "last": "50", "tenant": tenant}


def running_on(data: Path) -> list[str]:
    """The processes that replay with a profile of the data folder's own."""
    found: list[str] = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"--profile={data}/" in one.read_bytes().decode("utf-8", "replace"):
                found.append(one.parent.name)
        except OSError:  # it has just ended
            continue
    return found


@asynccontextmanager
async def held(data: Path) -> AsyncGenerator[None]:
    """The process that replays stands still in the block."""

    async def runs() -> bool:
        return bool(running_on(data))

    await until(runs, "a replay's process")
    pids = [int(one) for one in running_on(data)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def private_folders(data: Path) -> list[Path]:
    return list(data.glob("orion-replay-*"))


async def test_an_edited_profile_is_replayed_on_the_newest_decisions_of_a_tenant(
    service: Service, client: RecallClient, service_database: Connection, tenant: str, tmp_path: Path
) -> None:
    name = await asked(service, client, service_database, tenant)
    async with console(service, data_dir=tmp_path) as browser:
        form = await replay_form(browser, tenant)
        started = await browser.post("/profiles/reflect.v1", data=form)
        assert (started.status_code, started.headers["location"]) == (303, "/replays")
        async with held(tmp_path):  # else it might be done before the pages are here
            page = (await browser.get("/replays")).text
            second = await browser.post("/profiles/reflect.v1", data=form)
        assert f"on 1 decision of <bdi>{tenant}</bdi> runs since" in page
        assert ">Stop</button>" in page
        assert (second.status_code, "another replay runs" in second.text) == (409, True)
        assert html.escape(EDITED[:40]) in second.text

        async def is_done() -> bool:
            return "runs since" not in (await browser.get("/replays")).text

        await until(is_done, "the end of the replay")
        page = (await browser.get("/replays")).text
        assert "is done: " in page, page
        (report,) = (tmp_path / "replays").iterdir()
        assert report.name.endswith("-reflect.v1.json")
        told = json.loads(report.read_text("utf-8"))
        assert told["queries"] == 1
        assert [one["decision_id"] for one in told["changed"]] == [name]
        assert (await browser.get(f"/replays/{report.name}")).status_code == 200
    assert private_folders(tmp_path) == []


async def test_a_replay_is_stopped_by_its_button_and_by_the_end_of_the_console(
    service: Service, client: RecallClient, service_database: Connection, tenant: str, tmp_path: Path
) -> None:
    await asked(service, client, service_database, tenant)

    async def runs() -> bool:
        return bool(running_on(tmp_path))

    async with console(service, data_dir=tmp_path) as browser:
        form = await replay_form(browser, tenant)
        await browser.post("/profiles/reflect.v1", data=form)
        await until(runs, "a replay's process")
        assert (await browser.post("/replays/stop", data={"form_token": form["form_token"]})).status_code == 303

        async def is_stopped() -> bool:
            return "it was stopped" in (await browser.get("/replays")).text

        await until(is_stopped, "the end of the replay")
        assert running_on(tmp_path) == []
        await browser.post("/profiles/reflect.v1", data=form)
        await until(runs, "another replay's process")
    assert running_on(tmp_path) == []
    assert private_folders(tmp_path) == []
    assert list((tmp_path / "replays").iterdir()) == []


async def test_the_words_of_a_replay_that_fails_are_kept(service: Service, tmp_path: Path) -> None:
    nowhere = SecretStr("postgresql://nobody:secret@127.0.0.1:1/nothing")
    replaying = Replaying(service.settings.changed(data_dir=tmp_path, postgres_dsn=nowhere))
    ids = ["00000000-0000-0000-0000-000000000000"]
    wanted = Replay(profile="reflect.v1", text=TEXT, ids=ids, tenant="it's --a; tenant", as_of="now", redact=True)
    assert replaying.start(wanted)
    assert not replaying.start(wanted)

    async def has_ended() -> bool:
        return replaying.running is None

    await until(has_ended, "the end of the replay")
    assert replaying.last is not None
    assert "127.0.0.1" in replaying.last.error
    assert "secret" not in replaying.last.error
    assert list((tmp_path / "replays").iterdir()) == []


async def test_a_replay_needs_the_right_to_operate_and_is_of_the_visitors_tenant_alone(
    service: Service, client: RecallClient, service_database: Connection, tenant: str, tmp_path: Path
) -> None:
    await decided(service_database, client, "Whose crane is this?")
    looking, operating = new_token(), new_token()
    file = tmp_path / "tokens.toml"
    file.write_text(
        f'[[tokens]]\nname = "ana"\nsha256 = "{token_hash(looking)}"\ntenant = "*"\nmay = ["recall"]\n'
        f'[[tokens]]\nname = "op"\nsha256 = "{token_hash(operating)}"\ntenant = "{tenant}"\nmay = ["operate"]\n',
        "utf-8",
    )
    file.chmod(0o600)
    async with console(service, data_dir=tmp_path, console_tokens=file) as browser:
        await browser.post("/sign-in", data={"token": looking})
        page = (await browser.get("/profiles/reflect.v1")).text
        assert 'value="replay"' not in page
        form = {"form_token": form_token(page), "action": "replay", "text": EDITED}
        assert (await browser.post("/profiles/reflect.v1", data=form)).status_code == 403
        assert (await browser.post("/replays/stop", data=form)).status_code == 403
        await browser.post("/sign-in", data={"token": operating})
        form = await replay_form(browser, "default")
        assert (await browser.post("/profiles/reflect.v1", data=form | {"of": "any"})).status_code == 404
        form["tenant"] = ""
        refused = await browser.post("/profiles/reflect.v1", data=form | {"of": "any"})
        assert (refused.status_code, "there is no decision" in refused.text) == (409, True)


async def test_an_operator_of_one_tenant_sees_stops_and_reads_no_replay_of_another_and_saves_nothing(
    service: Service, client: RecallClient, service_database: Connection, tenant: str, tmp_path: Path
) -> None:
    other = f"{tenant[:7]}{int(tenant[7:]) + 500}"
    await asked(service, client, service_database, tenant)
    tokens = {name: new_token() for name in ("mine", "theirs", "all")}
    file, folder = tmp_path / "tokens.toml", tmp_path / "profiles"
    file.write_text(
        "".join(
            f'[[tokens]]\nname = "{name}"\nsha256 = "{token_hash(token)}"\ntenant = "{whose}"\nmay = ["operate"]\n'
            for (name, token), whose in zip(tokens.items(), (tenant, other, "*"), strict=True)
        ),
        "utf-8",
    )
    file.chmod(0o600)
    folder.mkdir()
    (folder / "reflect.v1.yaml").write_text(TEXT, "utf-8")
    (tmp_path / "replays").mkdir()
    (tmp_path / "replays" / "by-hand.json").write_text("{}", "utf-8")
    changed = {"data_dir": tmp_path, "console_tokens": file, "profiles_dir": folder, "console_saves_profiles": True}
    async with (
        console(service, **changed) as mine,
        httpx.AsyncClient(base_url=mine.base_url, timeout=30) as theirs,
        httpx.AsyncClient(base_url=mine.base_url, timeout=30) as everybody,
    ):
        for browser, name in ((mine, "mine"), (theirs, "theirs"), (everybody, "all")):
            assert (await browser.post("/sign-in", data={"token": tokens[name]})).status_code == 303
        form = await replay_form(mine, tenant)
        assert (await mine.post("/profiles/reflect.v1", data=form)).status_code == 303
        async with held(tmp_path):
            stop = {"form_token": form_token((await theirs.get("/profiles/reflect.v1")).text)}
            assert tenant not in (await theirs.get("/replays")).text
            assert (await theirs.post("/replays/stop", data=stop)).status_code == 404
            assert "it was told to stop" not in (await everybody.get("/replays")).text.casefold()
            for browser in (mine, everybody):
                assert f"<bdi>{tenant}</bdi> runs since" in (await browser.get("/replays")).text

        async def is_done() -> bool:
            return "is done: " in (await mine.get("/replays")).text

        await until(is_done, "the end of the replay")
        (report,) = (one.name for one in (tmp_path / "replays").iterdir() if one.name != "by-hand.json")
        for browser, sees in ((mine, {report}), (theirs, set[str]()), (everybody, {report, "by-hand.json"})):
            page = (await browser.get("/replays")).text
            assert {one for one in (report, "by-hand.json") if one in page} == sees
            for one in (report, "by-hand.json"):
                status = (await browser.get(f"/replays/{one}")).status_code
                assert (status != 404) == (one in sees), (one, status)
        for browser, status in ((mine, 403), (theirs, 403), (everybody, 303)):
            page = (await browser.get("/profiles/reflect.v1")).text
            assert ('value="save"' in page) == (status == 303)
            before = sha256(TEXT.encode()).hexdigest()
            saved = {"form_token": form_token(page), "action": "save", "text": EDITED, "before": before}
            assert (await browser.post("/profiles/reflect.v1", data=saved)).status_code == status
            assert ((folder / "reflect.v1.yaml").read_text("utf-8") == EDITED) == (status == 303)
        assert (folder / "reflect.v1.yaml").stat().st_mode & 0o777 == 0o644, "workers may be other users"
