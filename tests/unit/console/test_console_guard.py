from __future__ import annotations

import httpx
import pytest
from starlette.responses import PlainTextResponse

from orion_recall.console.app import is_own_path
from orion_recall.console.guard import Guard, host_name
from orion_recall.console.server import answered_hosts, is_loopback
from orion_recall.errors import SettingsError
from orion_recall.settings import Settings


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:8642", "localhost"),
        ("127.0.0.1:8642", "127.0.0.1"),
        ("[::1]:8642", "::1"),
        ("evil.example", "evil.example"),
        ("localhost.evil.example:8642", "localhost.evil.example"),
        ("", None),
        ("localhost:port", None),
        ("localhost/path", None),
        ("localhost@evil.example", None),
        ("evil.example@localhost", None),
        ("localhost#", None),
        ("localhost?", None),
        ("[::1", None),
    ],
)
def test_the_name_of_a_host_header(header: str, name: str | None) -> None:
    assert host_name(header) == name


def test_a_loopback_address_answers_for_the_names_of_this_machine_alone() -> None:
    assert answered_hosts(Settings(), has_tokens=False) == {"localhost", "127.0.0.1", "::1"}
    assert "orion.example" in answered_hosts(Settings(console_names=("orion.example",)), has_tokens=False)


@pytest.mark.parametrize("origin", ["http://[", "null", "http://evil.example", "http://localhost:1", "", "x"])
async def test_a_form_of_another_origin_or_of_none_that_can_be_read_is_refused(origin: str) -> None:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(Guard(PlainTextResponse("taken"), {"localhost"})), base_url="http://localhost"
    ) as browser:
        assert (await browser.post("/", headers={"origin": origin})).status_code == 403
        assert (await browser.post("/", headers={"origin": "http://localhost"})).status_code == 200
        assert (await browser.post("/")).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "orion.example", "127.0.0.1.example"])
def test_another_address_needs_tokens(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(SettingsError, match="ORION_CONSOLE_TOKENS"):
        answered_hosts(Settings(console_host=host), has_tokens=False)


def test_an_address_that_is_every_address_needs_names() -> None:
    with pytest.raises(SettingsError, match="ORION_CONSOLE_NAMES"):
        answered_hosts(Settings(console_host="0.0.0.0"), has_tokens=True)
    names = answered_hosts(Settings(console_host="0.0.0.0", console_names=("orion.example",)), has_tokens=True)
    assert "orion.example" in names


@pytest.mark.parametrize("target", ["//evil.example", "/\\evil.example", "https://evil.example", "", "x", "/a\nb"])
def test_nobody_is_led_away_after_signing_in(target: str) -> None:
    assert not is_own_path(target)


def test_after_signing_in_one_goes_where_one_wanted_to() -> None:
    assert is_own_path("/decisions/1?x=y")
