"""The address file that running engines write into their data folder for other commands."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from orion_recall.errors import EngineError

logger = logging.getLogger("orion_recall.engines")

ADDRESSES_NAME = "engines.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of a running instance's engines.

    `owner_pid` is the process that started them and `owner_birth` when it began, in the kernel's ticks
    ("" where that cannot be known): with both, a reused pid is not taken for it. `pids` has one entry an
    engine, by name.
    """

    owner_pid: int
    owner_birth: str
    redis_url: str | None
    postgres_dsn: str | None
    pids: Mapping[str, int]


_FILE = TypeAdapter(Addresses)


def read_addresses(data_dir: Path) -> Addresses | None:
    """The addresses of the instance that runs on this folder, or None when none runs."""
    path = data_dir / ADDRESSES_NAME
    try:
        addresses = _FILE.validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EngineError(f"cannot read {path}: {error.strerror}; run as the user who started it") from error
    except ValidationError:
        logger.warning("%s is not readable as addresses and is ignored", path)
        return None
    return addresses if process_birth(addresses.owner_pid) == addresses.owner_birth else None


def write_addresses(data_dir: Path, addresses: Addresses) -> None:
    """Leaves the note, readable by its owner only, in one step: a reader sees the old or the new one."""
    path = data_dir / ADDRESSES_NAME
    work = path.with_name(f".{ADDRESSES_NAME}.{os.getpid()}")
    descriptor = os.open(work, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(_FILE.dump_json(addresses, indent=2) + b"\n")
    work.replace(path)


def remove_addresses(data_dir: Path) -> None:
    """Takes the note away."""
    (data_dir / ADDRESSES_NAME).unlink(missing_ok=True)


def process_birth(pid: int) -> str | None:
    """When the process began, in ticks since boot; "" where only its life can be told; None when it is dead.

    The 22nd field of /proc/PID/stat (proc(5)), counted after the name, which may hold blanks.
    """
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    if Path("/proc/self/stat").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""
