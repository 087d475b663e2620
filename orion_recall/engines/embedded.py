"""All embedded engines of one data folder: started together, kept alive, addressed by a file, stopped together."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from orion_recall.atomic_file import whole_file
from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.engine import Engine
from orion_recall.engines.lock import FolderLock, held_by
from orion_recall.engines.postgres import PostgresServer
from orion_recall.engines.postgres_folder import private_id
from orion_recall.engines.valkey import ValkeyServer
from orion_recall.errors import EngineError
from orion_recall.postgres.address import DEFAULT_SCHEMA
from orion_recall.postgres.pool import POSTGRES_ERRORS
from orion_recall.tasks import cancel

logger = logging.getLogger("orion_recall.engines")

ADDRESSES_NAME = "engines.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses of a running instance's engines. `pids` has one entry an engine, by name."""

    owner_pid: int
    redis_url: str | None
    postgres_dsn: str | None
    pids: Mapping[str, int]


_FILE = TypeAdapter(Addresses)


def read_addresses(data_dir: Path) -> Addresses | None:
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
    return addresses if held_by(data_dir) == addresses.owner_pid else None


def write_addresses(data_dir: Path, addresses: Addresses) -> None:
    """In one step, readable by its owner only: a reader sees the old or the new note."""
    with whole_file(data_dir / ADDRESSES_NAME) as file:
        file.write(_FILE.dump_json(addresses, indent=2) + b"\n")


_EVERY_S = 1.0
_HINT = "or give another folder (--data, ORION_DATA_DIR), or set ORION_REDIS_URL and ORION_POSTGRES_DSN"


class EmbeddedEngines:
    """Running engines, made by `async with EmbeddedEngines.start(data_dir) as engines:`."""

    def __init__(self, data_dir: Path, engines: Iterable[Engine]) -> None:
        self.data_dir = data_dir
        self._engines = {one.name: one for one in engines}
        # By name: the process that was told of its disk, and what. A server that was started again is told again.
        self._told: dict[str, tuple[int | None, bool]] = {}
        self._watches: list[asyncio.Task[None]] = []

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        data_dir: Path,
        *,
        valkey: bool = True,
        postgres: bool = True,
        postgres_schema: str = DEFAULT_SCHEMA,
        bus_memory_bytes: int = 1 << 30,
        min_free_bytes: int = 0,
        workers: int = 1,
    ) -> AsyncGenerator[EmbeddedEngines, None]:
        """Starts the engines side by side and stops them at the end of the block.

        `postgres_schema` is the one that people with psql see without naming it. Above `bus_memory_bytes` the bus
        takes no more messages; 0: there is no limit. `min_free_bytes` of their disk are to stay free, once
        `supervise` was called (`disk_space`); 0: it is not watched. Postgres has connections for so many `workers`.
        The event loop's thread must outlive the block: the engines die with the thread that started them.
        EngineError when another process runs on the folder or an engine does not start.
        """
        folder, least = data_dir.resolve(), min_free_bytes
        _make_data_folder(folder)
        with FolderLock.acquire(folder, "the data folder", _HINT):
            servers = list[Engine]()
            if valkey:
                servers.append(ValkeyServer(folder, memory_bytes=bus_memory_bytes, least_bytes=least))
            if postgres:
                servers.append(PostgresServer(folder, schema=postgres_schema, least_bytes=least, workers=workers))
            engines = cls(folder, servers)
            try:
                starts = [engine.start() for engine in engines._engines.values()]
                problems = [outcome for outcome in await asyncio.gather(*starts, return_exceptions=True) if outcome]
                for problem in problems[1:]:
                    logger.error("another engine failed too: %s", problem)
                if problems:
                    raise problems[0]
                await engines._look_at_disks()  # one that was read-only at its end is so still
                engines._publish()
                yield engines
            finally:
                (folder / ADDRESSES_NAME).unlink(missing_ok=True)  # first: nobody should find what is about to end
                await cancel(*engines._watches)
                await asyncio.gather(*(engine.stop() for engine in engines._engines.values()))

    @property
    def valkey(self) -> Engine:
        return self._engines["valkey"]

    @property
    def postgres(self) -> Engine:
        return self._engines["postgres"]

    @property
    def redis_url(self) -> str:
        return self.valkey.address

    @property
    def postgres_dsn(self) -> str:
        return self.postgres.address

    @property
    def pids(self) -> dict[str, int]:
        return {name: pid for name, engine in self._engines.items() if (pid := engine.pid) is not None}

    @property
    def disks(self) -> list[DiskSpace]:
        return [engine.space for engine in self._engines.values()]

    def supervise(self) -> None:
        """From now on to the end of the block, restarts an engine that dies, and holds one whose disk is short."""
        if not self._watches:
            self._watches = [
                asyncio.create_task(engine.keep_alive(self._publish), name=f"keep {name} alive")
                for name, engine in self._engines.items()
            ]
            self._watches.append(asyncio.create_task(self._watch_disks(), name="watch the disks"))

    async def _watch_disks(self) -> None:
        while True:
            await self._look_at_disks()
            await asyncio.sleep(_EVERY_S)

    async def _look_at_disks(self) -> None:
        for engine in self._engines.values():
            if (pid := engine.pid) is not None:
                try:
                    await self._look_at_disk(engine, pid)
                except POSTGRES_ERRORS as error:  # among them OSError; the next look tries again
                    logger.warning("%s cannot be told about its disk: %s", engine.name, error)

    async def _look_at_disk(self, server: Engine, pid: int) -> None:
        told_pid, was_held = self._told.get(server.name, (None, False))
        # A quarter more than the least is asked for before it goes on: else it would change with every message.
        margin = server.space.least_bytes // 4 if was_held else 0
        why = await asyncio.to_thread(server.space.shortage, margin)
        if pid == told_pid and (why is not None) == was_held:
            return
        # Also where nothing is watched: it may have been told by a start that had a limit.
        await server.hold(held=why is not None)
        self._told[server.name] = (pid, why is not None)
        if why is not None:
            logger.error("%s: %s: %s", server.name, server.space.effect, why)
        elif was_held:
            logger.warning("%s: there is room again on its disk, and it takes writes", server.name)

    def _publish(self) -> None:
        addresses = {name: engine.address for name, engine in self._engines.items()}
        note = Addresses(
            owner_pid=os.getpid(),
            redis_url=addresses.get("valkey"),
            postgres_dsn=addresses.get("postgres"),
            pids=self.pids,
        )
        write_addresses(self.data_dir, note)


def _make_data_folder(folder: Path) -> None:
    """Made when it is absent, closed to all but its user; as root the group of Postgres may pass through."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(folder, 0, private_id(), follow_symlinks=False)
            folder.chmod(0o710)
    except FileExistsError:
        return
    except OSError as error:
        raise EngineError(f"cannot make the data folder {folder}: {error.strerror} ({error.filename})") from error
