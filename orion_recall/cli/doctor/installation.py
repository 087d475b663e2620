"""Checks of the installation, for `orion-recall doctor`: packages, engines, model, profiles, settings, data folder.

Nothing is started and nothing is written.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from orion_recall.engines.lock import held_by
from orion_recall.engines.postgres_folder import find_binaries
from orion_recall.engines.valkey import find_binary
from orion_recall.errors import OrionError
from orion_recall.models.embedder import SeveralForms
from orion_recall.models.opening import check_models, open_embedder
from orion_recall.profile.watch import profiles_with_default
from orion_recall.schemas.settings_reference import unknown_variables
from orion_recall.settings import Settings

# An empty data folder takes about 120 MB, nearly all of it Postgres; below this an engine soon stops.
_LEAST_FREE_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check: the state that was found, or the `problem` with its remedy."""

    name: str
    found: str = ""
    problem: str | None = None


def check_installation(settings: Settings) -> list[Check]:
    """Every check that these settings need, in the order in which a start would come to them."""
    looks: list[tuple[str, Callable[[], str]]] = [
        ("program", _program),
        ("settings", _settings),
        ("profiles", lambda: _profiles(settings)),
        ("model", lambda: _model(settings)),
    ]
    if settings.redis_url is None:
        looks.append(("bus", lambda: f"embedded: {find_binary()}"))
    if settings.postgres_dsn is None:
        looks.append(("Postgres", _postgres))
    looks.append(("data folder", lambda: _data_folder(settings.data_dir)))
    return [_checked(name, look) for name, look in looks]


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name=name, found=look())
    except OrionError as error:
        return Check(name=name, problem=str(error))


def _program() -> str:
    """The versions that a report of a fault should name."""
    packages = "orion-recall redis asyncpg qdrant-client qdrant-edge-py pyoxigraph onnxruntime pydantic".split()
    told = ", ".join(f"{name} {found}" for name in packages if (found := _version(name)))
    return f"{told}, Python {platform.python_version()} on {platform.system()} {platform.machine()}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _settings() -> str:
    unknown = unknown_variables(os.environ)
    known = "every ORION_ variable is known"
    return f"nothing reads {', '.join(unknown)}: `orion-recall settings` lists every name" if unknown else known


def _profiles(settings: Settings) -> str:
    return f"{', '.join(profiles_with_default(settings))} (default {settings.default_profile})"


def _model(settings: Settings) -> str:
    return asyncio.run(_checked_model(settings))


async def _checked_model(settings: Settings) -> str:
    """The model that embeds; the one that is on this machine is loaded and, where it is int8, tried."""
    await check_models(settings)
    if settings.embedder != "onnx":
        return settings.embedder
    async with open_embedder(settings.changed(token_vectors=False)) as embedder:
        note = embedder.form_note if isinstance(embedder, SeveralForms) else None
        told = f"{embedder.name}, its weights are here and known"
    return told if note is None else f"{told}; {note}"


def _postgres() -> str:
    found = find_binaries()
    return f"embedded: Postgres {found.major} in {found.bin_dir}"


def _data_folder(folder: Path) -> str:
    """OrionError when nobody could write there, or when the disk is nearly full."""
    there = next(_existing(folder.absolute()))
    if not os.access(there, os.W_OK | os.X_OK):
        raise OrionError(f"{there} cannot be written to: set ORION_DATA_DIR to a folder that can")
    free = shutil.disk_usage(there).free
    if free < _LEAST_FREE_BYTES:
        raise OrionError(f"{folder} has {free / 1e6:.0f} MB left on its disk: make room, or set ORION_DATA_DIR")
    holders = {pid for engine in ("valkey", "postgres", ".") if (pid := held_by(folder / engine)) is not None}
    use = f", in use by process {', '.join(map(str, sorted(holders)))}" if holders else ""
    state = "" if there == folder.absolute() else ", to be made at the first start"
    return f"{folder}, {free / 1e9:.0f} GB free{use}{state}"


def _existing(folder: Path) -> Iterator[Path]:
    """The folder and those above it that exist, the nearest first."""
    return (path for path in (folder, *folder.parents) if path.exists())
