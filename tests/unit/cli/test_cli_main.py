from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer

from orion_recall import errors
from orion_recall.cli import main
from orion_recall.cli.main import COMMANDS, load, run


def loading(raises: BaseException) -> Callable[[str], Any]:
    """What gives, for any name, a command whose whole work is to raise."""
    app = typer.Typer()

    @app.command()
    def fail(text: str = "", as_json: bool = typer.Option(False, "--json")) -> None:  # pyright: ignore[reportUnusedFunction]
        raise raises

    return lambda _name: typer.main.get_command(app)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_help_with_an_example_and_can_print_json(name: str) -> None:
    command = load(name)
    subcommands = list(getattr(command, "commands", {}).values())
    assert command.name == name
    assert (command.help or "").strip().splitlines()[0] == COMMANDS[name][1], "the list says the same"
    for one in [command, *subcommands]:
        assert "Example: " in (one.help or ""), one.name
    for one in subcommands or [command]:
        assert "--json" in [option for parameter in one.params for option in parameter.opts], one.name


def test_the_help_loads_no_engine_and_no_command() -> None:
    script = (
        "import sys; from orion_recall.cli.main import run; run(['--help']); "
        "print(sorted(n for n in sys.modules if n.startswith('orion_recall')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "decisions" in done.stdout
    names = ("gone", "main", "output")
    allowed = {"orion_recall", "orion_recall.cli", *(f"orion_recall.cli.{name}" for name in names)}
    assert set(json.loads(done.stderr.replace("'", '"'))) - {"orion_recall.errors"} <= allowed


def test_asking_loads_neither_graph_nor_index() -> None:
    script = "import sys, orion_recall.cli.ask; print(*{'rdflib', 'pyoxigraph', 'qdrant_edge'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not done.stdout.split()


WRONG_USE = "SettingsError EngineError ProfileError ImportFileError EvaluationError InvalidMessage".split()
FAILED = "ModelError RecordError ReplyTimeout BusUnavailable OrionError".split()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        *((getattr(errors, name)("x"), 2) for name in WRONG_USE),
        *((getattr(errors, name)("x"), 1) for name in FAILED),
        (OSError(13, "Permission denied", "/etc/x"), 1),
        (ModuleNotFoundError("no", name="qdrant_edge"), 2),
        (KeyboardInterrupt(), 130),
        (asyncio.CancelledError(), 130),
    ],
)
def test_an_error_is_an_exit_code_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    monkeypatch.setattr(main, "load", loading(error))
    assert run(["ask"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1


def test_with_json_an_error_is_on_standard_output_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "load", loading(errors.RecordError("away")))
    run(["ask", "--json"])
    assert json.loads(capsys.readouterr().out) == {"error": {"type": "RecordError", "message": "away"}}
    run(["ask", "--text", "x", "--", "--json"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ask x --k many --json", "--k"),
        ("ask x --since someday --json", "--since"),
        ("ask --json", "TEXT"),
        ("decisions list --outcome good --json", "--outcome"),
        ("dead requeue --json", "--all"),
        ("dead requeue 1-1 --all --json", "--all"),
        ("profiles --json", "--json"),
        ("ask x --data /dev/null/nowhere --json", "ORION_REDIS_URL"),
    ],
)
def test_a_wrong_command_line_is_named(capsys: pytest.CaptureFixture[str], line: str, told: str) -> None:
    assert run(line.split()) == 2
    printed = capsys.readouterr()
    assert told in json.loads(printed.out)["error"]["message"]
    assert told in printed.err


def test_a_shell_completes_subcommands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["orion-recall"])
    monkeypatch.setenv("_ORION_RECALL_COMPLETE", "complete_bash")

    def completed(words: str) -> set[str]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        with pytest.raises(SystemExit):
            main.main()
        return set(capsys.readouterr().out.split())

    assert completed("orion-recall memory re") >= {"remember", "rebuild", "restore"}
    assert completed("orion-recall ask --pro") == {"--profile"}
