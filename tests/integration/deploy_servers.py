"""Servers as deploy/ sets them up: Valkey with its users, Postgres with its roles."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from executor import until

from orion_recall.bus.connect import BUS_AWAY, connect
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.engines.postgres_folder import find_binaries
from orion_recall.engines.valkey import find_binary
from orion_recall.postgres.pool import Connection
from tests.stand_ins.forked import forked

DEPLOY = Path(__file__).parents[2] / "deploy"
PREFIX = "mesh:"
BUS_USERS = ("worker", "client", "operator", "analyst")
# Only for tests: somebody who may ask the server what the others were denied.
_ADMIN = "user admin on nopass ~* &* +@all\n"


def password(who: str) -> str:
    """A password of its own for every user and role."""
    return f"{who}-{'0123456789abcdef'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedBus:
    """A Valkey with the users of deploy/redis/users.acl, and one more who may do everything."""

    socket: Path

    def url(self, user: str, secret: str | None = None) -> str:
        """Its address for a user, with the user's own password or another one."""
        return f"unix://{user}:{password(user) if secret is None else secret}@{quote(str(self.socket))}"


def bus_environment(folder: Path, **changes: str) -> dict[str, str]:
    """What deploy/redis/start.sh is given."""
    passwords = {f"REDIS_{user.upper()}_PASSWORD": password(user) for user in BUS_USERS}
    given = {
        "PATH": os.environ["PATH"],
        "USERS_ACL": str(DEPLOY / "redis/users.acl"),
        "RUN_DIR": str(folder),
        "VALKEY_SERVER": str(find_binary()),
        "ORION_PREFIX": PREFIX,
    }
    return given | passwords | changes


@asynccontextmanager
async def guarded_bus() -> AsyncGenerator[GuardedBus]:
    """Valkey, started by deploy/redis/start.sh."""
    folder = Path(tempfile.mkdtemp(prefix="orion-acl-", dir="/tmp"))
    template = folder / "template.acl"
    template.write_text((DEPLOY / "redis/users.acl").read_text("utf-8") + _ADMIN, "utf-8")
    bus = GuardedBus(socket=folder / "bus.sock")
    with (folder / "log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(
            "sh", str(DEPLOY / "redis/start.sh"),
            *("--port", "0", "--unixsocket", str(bus.socket), "--dir", str(folder)),
            env=bus_environment(folder, USERS_ACL=str(template)), stdout=log, stderr=log,
        )  # fmt: skip
    try:
        await until(lambda: _answers(bus), f"a bus (see {folder}/log)")
        yield bus
    finally:
        if server.returncode is None:
            server.terminate()
        await server.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def _answers(bus: GuardedBus) -> bool:
    async with connect(bus.url("health", "none")) as redis:
        try:
            return bool(await redis.ping())  # pyright: ignore[reportUnknownMemberType]
        except BUS_AWAY:
            return False


def role_dsn(dsn: str, role: str, secret: str | None = None) -> str:
    """The DSN for a role of deploy/postgres/roles.sql."""
    user = f"{role}:{password(role) if secret is None else secret}@"
    return urlunsplit(urlsplit(dsn)._replace(netloc=user))


@asynccontextmanager
async def guarded_postgres() -> AsyncGenerator[str]:
    """The superuser's DSN of a Postgres with the roles; everybody else is asked for a password."""
    data_dir = Path(tempfile.mkdtemp(prefix="orion-roles-", dir="/tmp"))
    data_dir.chmod(0o755)
    try:
        async with EmbeddedEngines.start(data_dir / "data", valkey=False) as engines:
            dsn = engines.postgres_dsn
            async with session(dsn) as superuser:
                hba = Path(cast("str", await superuser.fetchval("SHOW hba_file")))
                hba.write_text("local all orion trust\nlocal all all scram-sha-256\n", "utf-8")
                await superuser.fetchval("SELECT pg_reload_conf()")
            yield dsn
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@asynccontextmanager
async def session(dsn: str) -> AsyncGenerator[Connection]:
    """One connection."""
    opened: Any = await asyncpg.connect(dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    connection = cast("Connection", opened)
    try:
        yield connection
    finally:
        await connection.close()


def run_psql(dsn: str, environment: Mapping[str, str], *files: str) -> subprocess.CompletedProcess[str]:
    """The files of deploy/postgres through psql, as compose.yaml's service `roles` runs them."""
    psql = find_binaries().bin_dir / "psql"
    arguments = [part for name in files for part in ("--file", str(DEPLOY / "postgres" / name))]
    return subprocess.run(
        [str(psql), "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", *arguments, dsn],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def role_passwords() -> dict[str, str]:
    """What passwords.sql is given."""
    return {
        f"POSTGRES_{name.upper()}_PASSWORD": password(f"orion_{name}") for name in ("owner", "worker", "analyst")
    }


async def run_program(environment: Mapping[str, str], *arguments: str) -> tuple[int, str, str]:
    """`orion-recall` with nothing set but this: exit code, output, errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORION_")}
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = forked("orion_recall.cli.main", arguments, environment=kept | dict(environment), out=out, err=err)
        try:
            code = await asyncio.to_thread(process.wait, 60)
        finally:
            process.kill()
        return code, out.read_text("utf-8"), err.read_text("utf-8")
