"""Who gets into the console: tokens of a file, sessions and forms, and the hosts that it answers for."""

from __future__ import annotations

from pathlib import Path

import pytest

from orion_recall.console import access
from orion_recall.console.access import LIFETIME_S, Sessions, TokenFile, new_token, read_tokens, token_hash
from orion_recall.console.server import answered_hosts, host_name, is_loopback, is_own_path
from orion_recall.errors import SettingsError
from orion_recall.settings import Settings


def entry(token: str, name: str = "ana", tenant: str = "default", may: str = '["recall"]') -> str:
    return f'[[tokens]]\nname = "{name}"\nsha256 = "{token_hash(token)}"\ntenant = "{tenant}"\nmay = {may}\n'


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "tokens.toml"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def test_a_token_gives_its_tenant_and_its_rights_and_another_one_nothing(tmp_path: Path) -> None:
    token = new_token()
    tokens = TokenFile(written(tmp_path, entry(token)))
    access = tokens.holder(token)
    assert access is not None
    assert (access.name, access.only_tenant) == ("ana", "default")
    assert access.may("recall") and not access.may("delete")
    assert tokens.holder(new_token()) is None
    assert tokens.holder("") is None
    assert tokens.holder(token_hash(token)) is None


def test_a_file_that_can_be_read_no_more_lets_nobody_in(tmp_path: Path) -> None:
    token = new_token()
    path = written(tmp_path, entry(token))
    tokens = TokenFile(path)
    path.write_text("[[tokens]", "utf-8")
    assert tokens.holder(token) is None
    path.unlink()
    assert tokens.of_key(token_hash(token)) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "list of"),
        ("tokens = []", "at least 1 item"),
        ("[[tokens]", "cannot be read"),
        ('[[tokens]]\nname = "ana"', "tokens.0.sha256: Field required; tokens.0.tenant"),
        (entry("t", may='["everything"]'), "'recall', 'feedback', 'delete' or 'operate'"),
        (entry("t", may='["write"]'), "write is gone: `orion-recall memory update` changes memories"),
        (entry("t", may='"recall"'), "tokens.0.may: "),
        (entry("t", tenant=""), "tokens.0.tenant: "),
        (entry("t").replace(token_hash("t"), "t"), "tokens.0.sha256: .*console --new-token NAME"),
        (entry("t") + entry("t", "bo"), "there already"),
        (entry("t") + entry("u"), "there already"),
        (entry("t") + "port = 1", "tokens.0.port: Extra inputs are not permitted"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        read_tokens(written(tmp_path, text))


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="others can write"):
        read_tokens(written(tmp_path, entry("t"), 0o666))


def test_a_cookie_says_who_comes_to_the_console_that_made_it() -> None:
    made = Sessions()
    cookie = made.cookie("Ana Søe; =")
    assert made.key_of(cookie) == "Ana Søe; ="
    assert set(cookie) <= set("0123456789abcdef.")
    assert Sessions().key_of(cookie) is None


def test_a_session_that_was_ended_says_nothing_and_others_of_its_token_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Sessions()
    one, other = made.cookie("ana"), made.cookie("ana")
    made.end(one)
    assert (made.key_of(one), made.key_of(other)) == (None, "ana")
    monkeypatch.setattr(access, "_MOST_ENDED", 3)
    for _ in range(9):
        made.end(made.cookie("bo"))
    made.end(one)
    assert made.key_of(one) is None


@pytest.mark.parametrize("cookie", ["", ".", "..", "616e61.1", "616e61.1.ff", "ü.1.ü"])
def test_a_cookie_that_the_console_did_not_make_says_nothing(cookie: str) -> None:
    assert Sessions().key_of(cookie) is None


def test_a_cookie_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Sessions()
    monkeypatch.setattr(access.time, "time", lambda: 1000.0)
    cookie = made.cookie("ana")
    monkeypatch.setattr(access.time, "time", lambda: 1000.0 + LIFETIME_S)
    assert made.key_of(cookie) == "ana"
    monkeypatch.setattr(access.time, "time", lambda: 1002.0 + LIFETIME_S)
    assert made.key_of(cookie) is None


def test_the_token_of_a_form_is_of_one_session_and_one_console() -> None:
    made = Sessions()
    cookie = made.cookie("ana")
    token = made.form_token(cookie)
    assert made.is_form_token(cookie, token)
    assert not made.is_form_token(made.cookie("ana"), token)
    assert not made.is_form_token(made.cookie("bo"), token)
    assert not made.is_form_token(cookie, "")
    assert not made.is_form_token(cookie, "\udcff")
    assert not Sessions().is_form_token(cookie, token)
    assert made.key_of(f"616e61.1.{token}") is None


no_hosts = "localhost:port localhost/path localhost@evil.example evil.example@localhost localhost#".split()
no_hosts += ["", "[::1", "localhost?"]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("LOCALHOST:8642", "localhost"),
        ("127.0.0.1:8642", "127.0.0.1"),
        ("[::1]:8642", "::1"),
        ("localhost.evil.example:8642", "localhost.evil.example"),
        *((header, None) for header in no_hosts),
    ],
)
def test_the_name_of_a_host_header(header: str, name: str | None) -> None:
    assert host_name(header) == name


def test_a_loopback_address_answers_for_the_names_of_this_machine_alone() -> None:
    assert answered_hosts(Settings(), has_tokens=False) == {"localhost", "127.0.0.1", "::1"}
    assert "orion.example" in answered_hosts(Settings(console_names=("orion.example",)), has_tokens=False)


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
