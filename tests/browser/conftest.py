"""A running `up --console` with hostile and plain memories and decisions, and Chromium on it."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from real_browser import CHROMIUM, library

from orion_recall.client import SyncRecallClient
from tests.acceptance.program import Program
from tests.acceptance.program import Running as RunningProgram

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
    "\"><svg onload=document.title='owned'> </textarea></pre></title></style>",
    "{{ 7 * 7 }} {% include 'x' %} ${7*7} #{7*7}",
    "\u202egnp.exe \u2066isolated \x1b[31m red",
    "javascript:document.title='owned' http://elsewhere.example/x.png",
)
MEMORIES = [
    ("m-work", "I work at Fjord Labs in Bergen.", "Ana"),
    ("m-sister", "My sister Mira moved to Oslo last spring.", "Ana"),
    ("m-crane", "The harbour crane needs a new gearbox by Friday.", "Bo"),
    ("m-boat", "Bo sold the old sailing boat to a dentist.", "Bo"),
    *((f"m-{n} {text}", f"{text} says the crane.", text) for n, text in enumerate(HOSTILE)),
]
QUESTIONS = ("What is wrong with the crane?", "Who moved to Oslo?", "hello", f"{' '.join(HOSTILE)} the crane?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running console: its address, and a decision in its log."""

    url: str
    bus_url: str
    decision: str
    program: Program
    up: RunningProgram

    def ask(self, question: str) -> str:
        """The id of the decision on a question."""
        return _asked(self.bus_url, [question])

    def wait_for_decision(self, name: str) -> None:
        """Return once the log has the decision."""
        _wait_for_decision(self.program, self.up, name)


@dataclass(kw_only=True)  # no slots: playwright keeps its handlers in it
class Tab:
    """A tab of the browser, with all that went wrong in it and all that it asked for elsewhere."""

    page: Any
    url: str
    problems: list[str] = field(default_factory=list[str])

    def watch(self) -> None:
        """Note errors, dialogs and requests to elsewhere from now on."""
        self.page.on("console", self._on_console)
        self.page.on("pageerror", self._on_error)
        self.page.on("request", self._on_request)
        self.page.on("dialog", self._on_dialog)

    def _on_console(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def _on_error(self, error: object) -> None:
        self.problems.append(str(error))

    def _on_request(self, asked: Any) -> None:
        if not asked.url.startswith(self.url):
            self.problems.append(f"a request to {asked.url}")

    def _on_dialog(self, dialog: Any) -> None:
        self.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: str) -> Any:
        """Another page of the console."""
        self.page.goto(f"{self.url}{path[1:]}")
        return self.page


@pytest.fixture(scope="session")
def console() -> Generator[Running]:
    folder = Path(tempfile.mkdtemp(prefix="orion-browser-", dir="/tmp"))
    folder.chmod(0o711)
    program = Program(folder, {"ORION_CONSOLE_PORT": "0"})
    try:
        with program.started("up", "--console", "--json") as running:
            ready = running.ready()
            file = folder / "memories.jsonl"
            memories = [{"id": name, "text": text, "speaker": who} for name, text, who in MEMORIES]
            file.write_text("".join(f"{json.dumps(one)}\n" for one in memories))
            assert program.run("import", str(file)).code == 0
            decision = _asked(ready["bus_url"], QUESTIONS)
            _wait_for_decision(program, running, decision)
            (program.data / "replays").mkdir()
            replay = program.run(
                "decisions", "replay", "--profile", "assist.light.v1", "--profile-of", "any", "--json"
            )
            (program.data / "replays" / "mine.json").write_text(replay.out, "utf-8")
            yield Running(
                url=ready["console_url"], bus_url=ready["bus_url"], decision=decision, program=program, up=running
            )
            running.signal(signal.SIGTERM)
            assert running.end().code == 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_decision(program: Program, up: RunningProgram, name: str) -> None:
    up.wait_until(lambda: program.run("decisions", "show", name).code == 0, "a logged decision")


def _asked(bus_url: str, questions: Sequence[str]) -> str:
    """The decision on the first of the questions, once all are answered."""
    with SyncRecallClient.connect(bus_url) as client:
        replies = [client.recall(one) for one in questions]
    name = replies[0].bundle.stats.decision_id
    assert name is not None
    return name


@pytest.fixture(scope="session")
def chromium() -> Generator[Any]:
    if not CHROMIUM.is_file():
        pytest.skip(f"there is no {CHROMIUM}")
    with library("playwright.sync_api").sync_playwright() as playwright:
        # The sandbox needs rights that root in a container has not; only pages of our own are opened.
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(request: pytest.FixtureRequest, console: Running, chromium: Any) -> Generator[Tab]:
    """A tab in light or dark, 1280 pixels wide; at its end nothing went wrong, and nothing was asked elsewhere."""
    options: dict[str, Any] = getattr(request, "param", {})
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, **options)
    opened = Tab(page=context.new_page(), url=console.url)
    opened.watch()
    yield opened
    context.close()
    assert opened.problems == []
