from __future__ import annotations

import pytest

from orion_recall.console import sessions
from orion_recall.console.access import LIFETIME_S, Sessions


def test_a_cookie_says_who_comes_to_the_console_that_made_it() -> None:
    made = Sessions()
    cookie = made.cookie("Ana Søe; =")
    assert made.key_of(cookie) == "Ana Søe; ="
    assert set(cookie) <= set("0123456789abcdef.")
    assert Sessions().key_of(cookie) is None


@pytest.mark.parametrize("cookie", ["", ".", "..", "616e61.1", "616e61.1.ff", "ü.1.ü"])
def test_a_cookie_that_the_console_did_not_make_says_nothing(cookie: str) -> None:
    assert Sessions().key_of(cookie) is None


def test_a_changed_cookie_says_nothing() -> None:
    made = Sessions()
    name, began, signature = made.cookie("ana").split(".")
    assert made.key_of(f"{b'bo'.hex()}.{began}.{signature}") is None
    assert made.key_of(f"{name}.{int(began) + 1}.{signature}") is None


def test_a_cookie_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Sessions()
    monkeypatch.setattr(sessions.time, "time", lambda: 1000.0)
    cookie = made.cookie("ana")
    monkeypatch.setattr(sessions.time, "time", lambda: 1000.0 + LIFETIME_S)
    assert made.key_of(cookie) == "ana"
    monkeypatch.setattr(sessions.time, "time", lambda: 1002.0 + LIFETIME_S)
    assert made.key_of(cookie) is None


def test_the_token_of_a_form_is_of_one_visitor_and_one_console() -> None:
    made = Sessions()
    token = made.form_token("ana")
    assert made.is_form_token("ana", token)
    assert not made.is_form_token("bo", token)
    assert not made.is_form_token("ana", "")
    assert not made.is_form_token("ana", "\udcff")
    assert not Sessions().is_form_token("ana", token)
    assert made.key_of(f"616e61.1.{token}") is None
