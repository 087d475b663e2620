"""`orion-recall keys`: the keys of callers, in a ring that workers read and files that callers sign with."""

from __future__ import annotations

import os
import secrets
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.bus.signing import keys as signing
from orion_recall.cli.output import group, note, report, show
from orion_recall.errors import SettingsError
from orion_recall.settings import Settings

app = group("""Make and list the keys that callers sign their messages with.

    The ring is what ORION_KEYS_FILE names: workers that have it serve signed messages only. A caller signs with the
    file that its ORION_KEY names. To change a key: make a new one, give it to the caller, then take the old one out
    of the ring. Workers read the ring again by themselves.

    Example: `orion-recall keys new ana-2027 --tenant ana --out ana.key`
    """)
Ring = Annotated[
    Path | None, typer.Option("--ring", metavar="FILE", help="The ring (default: what ORION_KEYS_FILE names).")
]
_SECRET_BYTES = 32


@app.command("new")
def new_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's name, which is no secret.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new file for the caller.")],
    tenant: Annotated[list[str], typer.Option(help="Its tenant; the first is the default; * is all.")],
    may: Annotated[str, typer.Option("--may", help="What it may do.")] = ",".join(signing.RIGHTS),
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="After so many days it is over.")] = None,
    ring: Ring = None,
) -> None:
    """Make a key: its lines go to the end of the ring, and a file for its caller is written.

    Both files can be read by their owner alone. The ring is made where there is none.

    Example: `orion-recall keys new reader --tenant ana --may recall,feedback --out reader.key`
    """
    path, rights = _ring(ring), _rights(may)
    callers = signing.read_ring(path) if path.exists() else {}
    if signing.check_id(key_id) in callers:
        raise SettingsError(
            f"{path} has a key {key_id!r}: give the new one another name, and take the old one out later"
        )
    until = None if days is None else datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    secret = secrets.token_bytes(_SECRET_BYTES)
    caller = signing.new_caller(id=key_id, secret=secret, tenants=tenant, may=rights, until=until)
    if not path.parent.is_dir():
        raise SettingsError(f"{path}: there is no folder {path.parent}")
    _write(out, signing.written_key(caller), os.O_CREAT | os.O_EXCL)
    try:
        _write(path, signing.written_caller(caller), os.O_CREAT | os.O_APPEND)
    except OSError:
        out.unlink()
        raise
    show({"ring": str(path), "file": str(out), "key": _as_json(caller, time.time())})
    note(f"{path} has the key {key_id}; give {out} to its caller, as ORION_KEY, over a way that nobody else reads")


@app.command("list")
def list_keys(ring: Ring = None) -> None:
    """List the keys of the ring, without their secrets.

    Example: `orion-recall keys list`
    """
    path = _ring(ring)
    callers, now = signing.read_ring(path), time.time()
    report({"ring": str(path), "keys": [_as_json(one, now) for one in callers.values()]})


def _ring(given: Path | None) -> Path:
    path = given or Settings.read().keys_file
    if path is None:
        raise SettingsError("no key ring: set ORION_KEYS_FILE, or name it with --ring")
    return path


def _rights(text: str) -> frozenset[signing.Right]:
    named = {part.strip() for part in text.split(",") if part.strip()}
    if not named or named - set(signing.RIGHTS):
        raise SettingsError(f"--may: name some of {', '.join(signing.RIGHTS)}, with commas")
    return frozenset(right for right in signing.RIGHTS if right in named)


def _write(path: Path, text: str, flags: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | flags, 0o600)
    except FileExistsError as error:
        raise SettingsError(f"{path} is there already: name a new file, or remove it") from error
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def _as_json(caller: signing.Caller, now: float) -> dict[str, object]:
    told = {"id": caller.id, "tenants": caller.tenants, "may": sorted(caller.may), "until": caller.until}
    return {**told, "is_over": caller.is_over(now)}
