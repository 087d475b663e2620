"""`orion-recall console`: pages in a browser over a running system; also beside an `up`."""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from orion_recall.cli.addresses import DataFolder, bus_of, dsn_of, find_started
from orion_recall.cli.output import for_people, note, print_json, prose, wants_json
from orion_recall.cli.serving.status import read_status
from orion_recall.cli.signals import stop_signals
from orion_recall.console.access import CONSOLE_RIGHTS, new_token, token_hash
from orion_recall.errors import SettingsError

_MAKE = "Print the entry of a new token for the file, and on standard error the token; then end."


def console(
    host: Annotated[str | None, typer.Option(help="Address (default: ORION_CONSOLE_HOST or 127.0.0.1).")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; 0: a free one (default: ORION_CONSOLE_PORT or 8642)."),
    ] = None,
    tokens: Annotated[Path | None, typer.Option(help="File of tokens (default: ORION_CONSOLE_TOKENS).")] = None,
    make_token: Annotated[str | None, typer.Option("--new-token", metavar="NAME", help=_MAKE)] = None,
    data: DataFolder = None,
) -> None:
    """Look at decisions and memories, and ask, on pages in a browser.

    Runs until Ctrl-C or SIGTERM, beside an `up` or any workers. It shows decisions as they come, each decision
    under a permanent address, memories, the graph, profiles and replays, and asks questions. Whoever reaches the
    port may do all of this, so it listens on this machine alone; for another address it needs a file of tokens.

    Example: `orion-recall console --data .orion`, then open http://127.0.0.1:8642/
    """
    if make_token is not None:
        _print_token(make_token)
        return
    load_console()  # what is missing is said before anything else
    settings = find_started(data)
    bus_of(settings)
    dsn_of(settings)
    given = {"console_host": host, "console_port": port, "console_tokens": tokens}
    settings = settings.changed(**{name: value for name, value in given.items() if value is not None})

    async def run() -> None:
        stopped = asyncio.Event()
        with stop_signals() as signals:
            async with load_console().running_console(settings, read_status) as url:
                signals.gently = stopped.set
                if for_people():
                    prose(f"console      {url}")
                    note("Ctrl-C stops it")
                else:
                    print_json({"ready": True, "url": url}, one_line=True)
                await stopped.wait()

    asyncio.run(run())


def _print_token(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise SettingsError("--new-token: give the name of whoever holds it, in characters that can be seen")
    token = new_token()
    if wants_json():
        print_json({"name": name, "token": token, "sha256": token_hash(token)})
        return
    note(f"the token, for its holder alone: {token}")
    print(f'[[tokens]]\nname = {json.dumps(name, ensure_ascii=False)}\nsha256 = "{token_hash(token)}"')
    print(f'tenant = "default"\nmay = []  # beside looking: {", ".join(CONSOLE_RIGHTS)}')


def load_console() -> Any:
    """The module that runs the console; ModuleNotFoundError where its packages are not installed."""
    return importlib.import_module("orion_recall.console.server")
