"""Postgres servers on a port of loopback with passwords, and PgBouncer in front of one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from orion_recall.engines.postgres_folder import NOBODY, PostgresBinaries, find_binaries, runnable_by
from tests.stand_ins.ports import free_port

PASSWORD = "p@ss/w:rd"
QUOTED = "p%40ss%2Fw%3Ard"


def _owner() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def debian_binaries() -> PostgresBinaries | None:
    """Debian's newest Postgres, where it is installed."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "postgres").exists():
            return PostgresBinaries(bin_dir=folder, major=int(folder.parent.name))
    return None


def wheel_binaries() -> PostgresBinaries:
    """The embedded Postgres's programs, where the user that they run as can reach them."""
    found = find_binaries()
    return runnable_by(found, NOBODY) if _owner() else found


@contextlib.contextmanager
def folder_for_servers() -> Any:
    """A folder directly under /tmp that belongs to the user that the servers run as."""
    folder = Path(tempfile.mkdtemp(prefix="orion-pg-", dir="/tmp"))
    if _owner():
        os.chown(folder, NOBODY, NOBODY)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _handed_over(source: Path, folder: Path) -> Path:
    """A copy that the servers' user owns: they insist on it for keys."""
    copy = folder / source.name
    shutil.copy(source, copy)
    copy.chmod(0o600)
    if _owner():
        os.chown(copy, NOBODY, NOBODY)
    return copy


@dataclass(slots=True)
class PostgresProcess:
    """A running server: `dsn` is of its superuser `orion` with the password, over TCP."""

    folder: Path
    port: int
    process: Process

    @property
    def dsn(self) -> str:
        return f"postgresql://orion:{QUOTED}@127.0.0.1:{self.port}/postgres"

    def send(self, number: signal.Signals) -> None:
        """A signal to the server and all its sessions: it is many processes."""
        for one in (parent := psutil.Process(self.process.pid), *parent.children(recursive=True)):
            one.send_signal(number)


@contextlib.asynccontextmanager
async def postgres_server(
    binaries: PostgresBinaries, options: Mapping[str, str] | None = None, *, files: Mapping[str, Path] | None = None
) -> AsyncGenerator[PostgresProcess]:
    """A fresh server whose sessions over TCP need the password (SCRAM). `files` are options that name a file."""
    with folder_for_servers() as folder:
        given = {"listen_addresses": "127.0.0.1", "port": str(free_port()), "unix_socket_directories": str(folder),
                 "fsync": "off", "max_connections": "40", "timezone": "Europe/Oslo"}  # fmt: skip
        given |= dict(options or {}) | {
            name: str(_handed_over(path, folder)) for name, path in (files or {}).items()
        }
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        made = await _run(
            binaries.bin_dir / "initdb", "-D", folder / "data", "-U", "orion", "-E", "UTF8", "--locale=C",
            "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}", "--no-sync",
        )  # fmt: skip
        assert await made.wait() == 0
        arguments = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        process = await _run(binaries.bin_dir / "postgres", "-D", folder / "data", *arguments)
        server = PostgresProcess(folder, int(given["port"]), process)
        try:
            await _ready(folder / "data" / "postmaster.pid", process)
            yield server
        finally:
            await _end(process, signal.SIGINT)


@contextlib.asynccontextmanager
async def pgbouncer(behind: PostgresProcess, binary: str) -> AsyncGenerator[str]:
    """The DSN of a PgBouncer in transaction mode, with so few sessions that clients must share them."""
    with folder_for_servers() as folder:
        port = free_port()
        users, settings = folder / "users.txt", folder / "pgbouncer.ini"
        users.write_text(f'"orion" "{PASSWORD}"\n')
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={behind.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {users}\n"
            "pool_mode = transaction\ndefault_pool_size = 2\nmin_pool_size = 2\nlogfile =\n"
        )
        for one in (users, settings):
            one.chmod(0o644)
        process = await _run(Path(binary), settings)
        try:
            await _listening(port, process)
            yield f"postgresql://orion:{QUOTED}@127.0.0.1:{port}/postgres"
        finally:
            await _end(process, signal.SIGTERM)


async def _run(program: Path, *arguments: object) -> Process:
    return await asyncio.create_subprocess_exec(
        str(program), *map(str, arguments), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, cwd="/", **_owner()
    )


async def _ready(pid_file: Path, process: Process) -> None:
    """It takes sessions: it listens before, and turns them away while it starts up."""
    async with asyncio.timeout(30):
        while not (pid_file.exists() and pid_file.read_text().rstrip().endswith("ready")):
            assert process.returncode is None, "it has ended"
            await asyncio.sleep(0.05)


async def _listening(port: int, process: Process) -> None:
    async with asyncio.timeout(30):
        while True:
            assert process.returncode is None, "it has ended"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def _end(process: Process, gently: signal.Signals) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGCONT)
        process.send_signal(gently)
        try:
            async with asyncio.timeout(30):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
