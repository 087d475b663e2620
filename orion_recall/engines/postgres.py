"""The embedded Postgres server on a Unix socket. It refuses to run as root: root starts it as a uid of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import quote

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.engines import postgres_folder as folders
from orion_recall.engines.disk_space import POSTGRES_SHARE
from orion_recall.engines.engine import Command, Engine, run_to_end
from orion_recall.errors import EngineError
from orion_recall.postgres.address import DEFAULT_SCHEMA
from orion_recall.postgres.pool import Connection

_PORT = 5432  # only the socket's file name; stated everywhere, or PGPORT of the environment would change it
_PROBE_TIMEOUT_S, _INITDB_TIMEOUT_S = 5, 120.0
_NEW_MIB = 64
_BUILTIN_LOCALES_SINCE = _BOUNDED_NOTIFICATIONS_SINCE = 17

# One worker holds 16 at most; the rest is for commands, analysts and a second worker that somebody starts.
_CONNECTIONS, CONNECTIONS_OF_A_WORKER = 40, 16
_OPTIONS = {
    "listen_addresses": "",
    "port": str(_PORT),
    "unix_socket_permissions": "0700",
    "shared_buffers": "32MB",
    # Some ten thousand memories' worth: the log is a fixed part of the data folder, and no memory needs it twice.
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
    "fsync": "on",
    "synchronous_commit": "on",  # it is the record: what was acknowledged stays
    "jit": "off",  # small queries only: compiling them costs more than it saves
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_min_messages": "log",  # starts, stops and crashes; an error's text may quote a memory: not logged
    "cluster_name": "orion-recall",
}


class PostgresServer(Engine):
    """The Postgres server in `data_dir/postgres`, or where that points. The data folder's lock is held."""

    name = folders.NAME
    socket_names = (f".s.PGSQL.{_PORT}", f".s.PGSQL.{_PORT}.lock")

    def __init__(
        self,
        data_dir: Path,
        *,
        schema: str = DEFAULT_SCHEMA,
        least_bytes: int = 0,
        workers: int = 1,
    ) -> None:
        self._connections = _CONNECTIONS + CONNECTIONS_OF_A_WORKER * (workers - 1)
        self._uid = folders.private_id() if os.geteuid() == 0 else None
        self._data_dir = data_dir
        super().__init__(
            data_dir,
            folders.database_folder(data_dir, self._uid),
            owner=os.geteuid() if self._uid is None else self._uid,
            least_bytes=least_bytes // POSTGRES_SHARE,
            effect="Postgres is read-only: stores and decisions wait on the bus",
        )
        self._cluster = self.folder / folders.CLUSTER
        # So that somebody with psql finds the tables by their names alone.
        self._search_path = f'{schema}, "$user", public'

    @property
    def address(self) -> str:
        host = quote(str(self.sockets))
        return f"postgresql://orion@/orion?host={host}&port={_PORT}&sslmode=disable"

    async def hold(self, *, held: bool) -> None:
        """Refuse writes in all sessions, as a replica does; or take them again.

        A write-ahead log that cannot be written ends the server. This comes before that. OSError when it is away.
        """
        async with self._session() as session:
            # In postgresql.auto.conf: also what starts again on a full disk is read-only.
            setting = "default_transaction_read_only"
            await session.execute(f"ALTER SYSTEM SET {setting} = on" if held else f"ALTER SYSTEM RESET {setting}")
            await session.execute("SELECT pg_reload_conf()")

    async def prepare(self, lock_fd: int) -> Command:
        self._check_folder()
        version = self._cluster / "PG_VERSION"
        major = int(version.read_text(encoding="ascii")) if version.exists() else None
        binaries = await asyncio.to_thread(folders.find_binaries, major)
        if self._uid is not None:
            binaries = await asyncio.to_thread(folders.runnable_by, binaries, self._uid)
        await asyncio.to_thread(self._clear_leftovers)
        folders.check_not_gone(self._data_dir, self._cluster)
        if not self._cluster.exists():
            if (free_mib := self.space.free_bytes >> 20) < _NEW_MIB:
                raise EngineError(
                    f"the disk under {self.folder} is full: {free_mib} MiB are free, and a new database needs "
                    f"{_NEW_MIB} MiB: make room, or give another folder (--data, ORION_DATA_DIR)"
                )
            await self._make_cluster(binaries, lock_fd)
        folders.note_made(self._data_dir, self._cluster)
        options = {
            "unix_socket_directories": str(self.sockets),
            "search_path": self._search_path,
            "max_connections": str(self._connections),
            **_OPTIONS,
        }
        if binaries.major >= _BOUNDED_NOTIFICATIONS_SINCE:
            # Nobody here listens: an analyst who does could have eight gigabytes kept.
            options["max_notify_queue_pages"] = "64"
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        argv = [str(binaries.bin_dir / "postgres"), "-D", str(self._cluster), *arguments]
        # "fast": ends the sessions, writes a checkpoint, leaves nothing to recover
        return self._command(argv, signal.SIGINT, lock_fd)

    async def ready(self) -> bool:
        with contextlib.suppress(OSError, TimeoutError, asyncpg.CannotConnectNowError):
            async with self._session() as session:
                if not await session.fetchval("SELECT true FROM pg_database WHERE datname = 'orion'"):
                    await session.execute("CREATE DATABASE orion")
                return True
        return False

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncGenerator[Connection]:
        opened: object = await asyncpg.connect(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            dsn=self.address, database="postgres", timeout=_PROBE_TIMEOUT_S
        )
        session = cast("Connection", opened)
        try:
            yield session
        finally:
            await session.close()

    def _command(self, argv: list[str], stop_signal: signal.Signals, lock_fd: int) -> Command:
        return Command(
            name=Path(argv[0]).name,
            argv=tuple(argv),
            log_path=self.log_path,
            stop_signal=stop_signal,
            uid=self._uid,
            lock_fd=lock_fd,
        )

    def _check_folder(self) -> None:
        """As root: hands the folder to the unprivileged user, who must be able to come to it."""
        if self._uid is None:
            return
        owner = self.folder.stat().st_uid
        if owner == 0 or not self._cluster.exists():  # without a database a start that was cut off has left it
            os.chown(self.folder, self._uid, self._uid, follow_symlinks=False)
        elif owner != self._uid:
            raise EngineError(
                f"{self.folder} belongs to uid {owner}: run as that user, or give another data folder "
                "(--data), or set ORION_POSTGRES_DSN"
            )
        if (closed := folders.closed_folder(self._cluster, self._uid)) is not None:
            raise EngineError(
                f"uid {self._uid}, which runs Postgres because root may not, cannot enter {closed}: give a "
                "data folder outside it (--data /var/lib/orion-recall), or run as another user than root, "
                "or set ORION_POSTGRES_DSN"
            )

    def _clear_leftovers(self) -> None:
        """Removes half-made databases and a dead server's pid file; the folder's lock is held.

        Postgres believes a pid file when any process has that pid, and after a restart of a container some
        process does. A server that really works in this folder has it as its working directory.
        """
        for unfinished in self.folder.glob("new-*"):
            shutil.rmtree(unfinished)
        if not Path("/proc/self").exists():  # then it is left to Postgres
            return
        pid_file = self._cluster / "postmaster.pid"
        with contextlib.suppress(FileNotFoundError, ValueError, IndexError):
            pid = abs(int(pid_file.read_text(encoding="utf-8").split()[0]))  # negative: single-user mode
            if Path(f"/proc/{pid}/cwd").resolve() == self._cluster.resolve():
                raise EngineError(f"Postgres already runs on {self._cluster} (process {pid}); stop it")
        pid_file.unlink(missing_ok=True)
        (self.sockets / f".s.PGSQL.{_PORT}.lock").unlink(missing_ok=True)

    async def _make_cluster(self, binaries: folders.PostgresBinaries, lock_fd: int) -> None:
        """Makes the database folder beside its place and moves it there: complete or not there at all.

        Trust is enough because only the folder's mode decides who reaches the socket: 700, its owner and
        root. (Peer maps would need a name for every uid, and a container's uid may have none.)
        """
        work = self.folder / f"new-{os.getpid()}"
        maker = None if self._uid is None else folders.idle_account()
        if maker is not None:
            os.chown(self.folder, maker, -1)
        fixed = ("-U", "orion", "-E", "UTF8", "--auth=trust", "--data-checksums", "--no-instructions")
        # UTF-8 character classes, code point order, no dependence on the system's C library where that is possible.
        is_builtin = binaries.major >= _BUILTIN_LOCALES_SINCE
        builtin = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
        locale = builtin if is_builtin else ("--locale=C.UTF-8",)
        argv = [str(binaries.bin_dir / "initdb"), "-D", str(work), *fixed, *locale]
        command = replace(self._command(argv, signal.SIGTERM, lock_fd), uid=maker, gid=self._uid)
        await run_to_end(command, _INITDB_TIMEOUT_S)
        if self._uid is not None:
            await asyncio.to_thread(folders.give_to, self.folder, self._uid)
        work.rename(self._cluster)
