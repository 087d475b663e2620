from __future__ import annotations

from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from orion_recall.console.rendering import HERE, exact, shown
from orion_recall.console.visit import form_of

BEGAN = datetime(2026, 11, 25, 10, tzinfo=UTC)


class Browser(HTMLParser):
    """Reads HTML as a browser does."""

    seen = ""

    def handle_data(self, data: str) -> None:
        self.seen += data


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u200f", "\x07", "\x00", "\x1b", "\x85", "\ud800"])
def test_what_could_steer_the_text_around_it_is_shown_as_a_replacement(character: str) -> None:
    assert shown(f"a{character}b") == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u200f", "\x07", "\x1b", "\x85", "\r", "<", '"', "&"])
def test_a_field_of_a_form_holds_every_character_as_it_is(character: str) -> None:
    told = exact(f"a{character}b")
    assert not set(told) & set('\u202e\u2066\u200f\r<"')
    browser = Browser()
    browser.feed(told)
    browser.close()
    assert browser.seen == f"a{character}b"


def test_no_half_of_a_character_gets_into_a_field() -> None:
    assert exact("a\ud800\x00") == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    assert exact(None) == ""


def test_no_template_turns_off_escaping_or_has_script_or_style_in_it() -> None:
    templates = list((HERE / "templates").glob("*.html"))
    assert len(templates) > 5
    for path in templates:
        text = path.read_text("utf-8")
        for word in ("| safe", "|safe", "autoescape", "Markup", " style=", " onclick", "<style", "javascript:"):
            assert word not in text, (path.name, word)
        assert text.count("<script") == text.count('<script src="/static/')


def test_a_form_keeps_every_value_of_a_field_and_bounds_numbers() -> None:
    form = form_of("used=a&used=b&text=+x+%0D%0Ay+&k=9999&bad=-1&big=" + "9" * 40)
    assert form.getlist("used") == ["a", "b"]
    assert form.text("text") == "x \r\ny"
    assert form.raw("text") == " x \ny "
    assert form.text("none", "default") == "default"
    assert form.number("k", least=1, most=100) == 100
    assert form.number("bad", least=1, most=100) is None
    assert form.number("big", least=1, most=100) is None
