"""The console in a real browser: every page, by keyboard, at 400 % zoom, in light and dark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from conftest import MEMORIES, Running, Tab
from real_browser import violations

HOSTILE_MEMORY = f"/memory?{urlencode({'tenant': 'default', 'id': MEMORIES[4][0]})}"
PAGES = (
    "/",
    "/?outcome=ok&profile=reflect.v1&tenant=default",
    "/?verb=nobody",
    "OLDER",
    "/ask",
    "DECISION",
    "/memories",
    "/memories?words=crane",
    "/memory?tenant=default&id=m-crane",
    HOSTILE_MEMORY,
    "/graph",
    "/profiles",
    "/profiles/reflect.v1",
    "/replays",
    "/replays/mine.json",
)
SCHEMES = pytest.mark.parametrize(
    "tab", [{"color_scheme": one} for one in ("light", "dark")], indirect=True, ids=str
)


def address(page: str, console: Running) -> str:
    return {"DECISION": f"/decisions/{console.decision}", "OLDER": f"/?before={console.decision}"}.get(page, page)


def focused(tab: Tab) -> str:
    """What has the focus: its text, label or name."""
    told: Any = tab.page.evaluate(
        "(({innerText, id, name, value, tagName}) => (innerText || id || name || value || tagName).trim())"
        "(document.activeElement)"
    )
    return str(told)


def tab_to(tab: Tab, what: str) -> None:
    """Press Tab until something is focused, which must be within the keys that a page has."""
    for _ in range(150):
        tab.page.keyboard.press("Tab")
        if focused(tab).startswith(what):
            assert tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", what
            return
    pytest.fail(f"{what!r} is not reached by Tab")


@SCHEMES
@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_violation_of_accessibility(tab: Tab, console: Running, path: str) -> None:
    page = tab.open(address(path, console))
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert violations(page) == []


def test_a_profile_is_checked_by_itself_when_one_stops_typing(tab: Tab) -> None:
    page = tab.open("/profiles/reflect.v1")
    assert page.inner_text("#check") == ""
    assert page.get_attribute("#check", "aria-live") == "polite"
    page.focus("#text")
    page.keyboard.press("Control+End")
    page.keyboard.type("max_totl_items: 3")
    page.wait_for_selector("#check .bad:has-text('max_totl_items')")
    assert focused(tab) == "text"  # one types on where one was
    assert page.query_selector("#check [role=alert]") is None  # told once, politely, with what is around it
    assert violations(page) == []
    for _ in "max_totl_items: 3":
        page.keyboard.press("Backspace")
    page.wait_for_selector("#check .good")
    assert page.input_value("#text") == page.evaluate("document.querySelector('#text').defaultValue")


def test_a_replay_is_started_from_a_profile_and_its_report_comes_by_itself(tab: Tab) -> None:
    page = tab.open("/profiles/reflect.v1")
    tab_to(tab, "last")
    page.select_option("#of", "any")
    tab_to(tab, "Replay")
    page.keyboard.press("Enter")
    page.wait_for_selector("#running button")
    assert violations(page) == []
    page.wait_for_selector("#running .good a", timeout=120_000)
    assert violations(page) == []
    page.click("#running .good a")
    page.wait_for_selector("h1")
    assert "reflect.v1" in page.inner_text("main")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_at_400_percent(tab: Tab, console: Running, path: str) -> None:
    tab.page.set_viewport_size({"width": 320, "height": 256})  # what is left of 1280 x 1024
    page = tab.open(address(path, console))
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    beyond = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(one => !one.closest('.scroll, textarea, svg, .hidden') &&"
        " one.getBoundingClientRect().right > 321).map(one => one.outerHTML.slice(0, 120))"
    )
    assert beyond == []


@pytest.mark.parametrize("path", PAGES)
def test_hostile_texts_stay_texts(tab: Tab, console: Running, path: str) -> None:
    page = tab.open(address(path, console))
    assert page.title().endswith("· orion-recall")
    assert page.query_selector_all("main img, main script, main iframe, main style") == []
    text = page.evaluate(  # fields of forms hold texts exactly
        "(() => { const shown = document.body.cloneNode(true);"
        " shown.querySelectorAll('textarea').forEach(one => one.remove()); return shown.textContent; })()"
    )
    assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x1b") & set(text)


def test_by_keyboard_alone_one_asks_opens_the_decision_and_says_what_was_of_use(tab: Tab, console: Running) -> None:
    page = tab.open("/ask")
    tab_to(tab, "Skip to the content")
    page.keyboard.press("Enter")
    tab_to(tab, "query")
    page.keyboard.type("What is wrong with the crane?")
    tab_to(tab, "Ask")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer")
    tab_to(tab, "the decision")
    link = page.evaluate("document.activeElement.href")
    console.wait_for_decision(str(link).rpartition("/")[2])
    page.keyboard.press("Enter")
    page.wait_for_selector("#kept")
    tab_to(tab, "Score")
    page.keyboard.press("Enter")
    assert page.is_visible("details[open] tfoot")
    tab_to(tab, "Of use")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]")
    assert "The feedback was taken" in page.inner_text("[role=status]")


def test_the_lines_that_were_sent_come_by_themselves(tab: Tab, console: Running) -> None:
    page = tab.open(f"/decisions/{console.decision}")
    page.wait_for_selector("#sent pre.line")
    assert "These are the lines as they were sent." in page.inner_text("#sent")
    assert "The harbour crane needs a new gearbox by Friday." in page.inner_text("#sent li:first-child pre.line")
    assert "m-crane is first with " in page.inner_text("#sent li:first-child .why")
    assert page.query_selector("#lines") is None
    assert violations(page) == []


def test_decisions_are_chosen_by_keyboard_and_only_those_come_live(tab: Tab, console: Running) -> None:
    page = tab.open("/")
    tab_to(tab, "verb")
    page.keyboard.type("of nobody")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=There is no such decision.")
    page.click("text=List all")
    page.select_option("#outcome", "empty")
    page.click("text=List these")
    page.wait_for_selector("#live-status:text-is('Live')")
    answered, greeting = console.ask("Who sold the boat?"), console.ask("hello")
    page.wait_for_selector(f"#d-{greeting}")
    assert page.query_selector(f"#d-{answered}") is None


@pytest.mark.parametrize("size", [(400, 800), (400, 560), (1280, 800)])
def test_no_panel_of_the_picture_covers_another(tab: Tab, size: tuple[int, int]) -> None:
    tab.page.set_viewport_size({"width": size[0], "height": size[1]})
    page = tab.open("/graph/picture?entities=Ana")
    page.wait_for_function("Number(document.documentElement.dataset.drawn) > 1")
    page.fill("#search", "fjord")
    page.press("#search", "Enter")
    boxes: list[Any] = [page.locator(name).bounding_box() for name in ("header", "nav", "aside")]
    for place, one in enumerate(boxes):
        assert one["x"] >= 0 and one["x"] + one["width"] <= size[0] and one["y"] + one["height"] <= size[1]
        for other in boxes[place + 1 :]:
            apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            apart = apart or one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
            assert apart, (one, other)


def test_the_graph_is_drawn_and_an_entity_found_in_it(tab: Tab) -> None:
    page = tab.open("/graph/picture?entities=Ana")
    page.wait_for_function("Number(document.documentElement.dataset.drawn) > 1")
    page.fill("#search", "fjord")
    page.press("#search", "Enter")
    assert "I work at Fjord Labs in Bergen." in page.inner_text("#told")


def test_decisions_come_by_themselves_until_one_pauses_that(tab: Tab, console: Running) -> None:
    page = tab.open("/")
    page.wait_for_selector("#live-status:text-is('Live')")
    first = console.ask("Who sold the boat?")
    page.wait_for_selector(f"#d-{first}")
    assert page.evaluate("document.querySelector('#decisions tr').id") == f"d-{first}"
    tab_to(tab, "Pause")
    page.keyboard.press("Enter")
    assert page.inner_text("#live-status") == "Paused"
    assert focused(tab) == "Go on"
    second = console.ask("Who bought the boat?")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#d-{second}")  # going on shows what came meanwhile
    assert page.evaluate("document.querySelectorAll('#decisions tr').length") <= 25
    assert page.evaluate("new Set([...document.querySelectorAll('#decisions tr')].map(one => one.id)).size") == (
        page.evaluate("document.querySelectorAll('#decisions tr').length")
    )


@pytest.mark.parametrize("tab", [{"java_script_enabled": False}], indirect=True)
def test_without_script_one_can_still_do_everything(tab: Tab, console: Running) -> None:
    page = tab.open("/")
    assert not page.is_visible("#pause")
    assert page.is_visible("noscript")
    page.click(f"a[href='/decisions/{console.decision}'] >> nth=0")
    page.wait_for_selector("#kept")
    page.click("text=Show the lines as they were sent")
    page.wait_for_selector("#sent pre.line")
    page.fill("#missing", "m-crane")
    page.click("text=Find out")
    page.wait_for_selector("#why-not")
    page.click("text=Ask again now")
    page.wait_for_selector("#answer")
    assert "gearbox" in page.inner_text("main")


@SCHEMES
def test_with_tokens_one_signs_in_by_keyboard_and_out_again(tab: Tab, console: Running, tmp_path: Path) -> None:
    made = json.loads(console.program.run("console", "--new-token", "ana", "--json").out)
    file = tmp_path / "tokens.toml"
    entry = f'[[tokens]]\nname = "ana"\nsha256 = "{made["sha256"]}"\ntenant = "default"\nmay = ["recall"]\n'
    file.write_text(entry, "utf-8")
    file.chmod(0o600)
    with console.program.started("console", "--port", "0", "--tokens", str(file), "--json") as running:
        tab.url = running.ready()["url"]
        page = tab.open("/ask")
        tab.problems.clear()  # the page to sign in is an answer 401
        assert violations(page) == []
        tab_to(tab, "token")
        page.keyboard.type(made["token"])
        page.keyboard.press("Enter")
        page.wait_for_selector("#query")
        assert violations(page) == []
        assert page.query_selector("a[href='/replays']") is None
        page.click("text=Sign out")
        page.wait_for_selector("#token")
        page.wait_for_load_state("networkidle")
        page.close()
        tab.problems.clear()
