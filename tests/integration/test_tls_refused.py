"""Every server that we speak to under TLS: a wrong, expired or foreign certificate is refused, and named.

What the error says is for the person who must mend it: the address, the reason, and no secret.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import OrionError
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.postgres.pool import borrow, open_pool
from orion_recall.settings import Settings
from tests.stand_ins.certificates import Certificates, Shown
from tests.stand_ins.oxigraph import Oxigraph
from tests.stand_ins.proxy import Proxy
from tests.stand_ins.qdrant_process import QdrantStandIn

SECRET = "opensesame"
REASONS: dict[Shown, str] = {
    "misnamed": "mismatch",
    "expired": "certificate has expired",
    "foreign": "unable to get local issuer certificate",
}
Ask = Callable[[int], Awaitable[object]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def trusted(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The authority that the machine trusts, as HTTP clients find it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    return certificates.ca


async def ask_bus(port: int, ca: Path) -> None:
    async with RecallClient.connect(f"rediss://ana:{SECRET}@localhost:{port}?ssl_ca_certs={ca}"):
        pass


async def ask_postgres(port: int, ca: Path) -> None:
    dsn = f"postgresql://orion:{SECRET}@localhost:{port}/orion?sslrootcert={ca}&sslmode=verify-full"
    pool = await open_pool(dsn, name="test")
    try:
        async with borrow(pool) as connection:
            await connection.fetchval("SELECT 1")
    finally:
        await pool.close()


async def ask_qdrant(port: int, ca: Path) -> None:
    server = QdrantServer.at(f"https://localhost:{port}", api_key=SECRET)
    try:
        await server.ask(server.client.collection_exists("none"))
    finally:
        await server.close()


async def ask_sparql(port: int, ca: Path) -> None:
    settings = Settings.read(
        sparql_url=f"https://localhost:{port}/query", sparql_user="ana", sparql_password=SECRET
    )
    client = SparqlClient(
        SparqlServer(url=settings.sparql_url or "", user=settings.sparql_user, password=settings.sparql_password)
    )
    try:
        await client.select("SELECT * { } LIMIT 1")
    finally:
        await client.close()


ASKS = {"bus": ask_bus, "postgres": ask_postgres, "qdrant": ask_qdrant, "sparql": ask_sparql}
PORTS = {"postgres": "/orion", "bus": "", "qdrant": "", "sparql": "/query"}


@contextlib.asynccontextmanager
async def behind(
    name: str, engines: EmbeddedEngines, certificates: Certificates, shown: Shown
) -> AsyncGenerator[int]:
    """The port of a server that shows that certificate."""
    tls = certificates.server_context(shown=shown)
    if name == "postgres":
        host = parse_qs(urlsplit(engines.postgres_dsn).query)["host"][0]
        opening = Proxy.before_socket(f"{host}/.s.PGSQL.5432", tls=tls, asked=True)
    elif name == "bus":
        opening = Proxy.before_socket(engines.redis_url.removeprefix("unix://"), tls=tls)
    else:  # nobody is behind: what is refused never comes so far
        opening = Proxy.before("127.0.0.1", 9, tls=tls)
    async with opening as proxy:
        yield proxy.port


@pytest.mark.parametrize("shown", REASONS)
@pytest.mark.parametrize("name", ASKS)
async def test_a_certificate_that_proves_nothing_is_refused_with_address_and_reason(
    name: str, shown: Shown, engines: EmbeddedEngines, certificates: Certificates, trusted: Path
) -> None:
    async with behind(name, engines, certificates, shown) as port:
        with pytest.raises(OrionError) as refused:
            await ASKS[name](port, trusted)
    told = str(refused.value)
    assert "CERTIFICATE_VERIFY_FAILED" in told
    assert REASONS[shown] in told
    assert f"localhost:{port}{PORTS[name]}" in told
    assert SECRET not in told


@pytest.mark.slow
async def test_a_right_certificate_is_taken_by_every_client(
    engines: EmbeddedEngines, certificates: Certificates, trusted: Path, tmp_path: Path
) -> None:
    """Else the refusals above could be of anything."""
    tls = certificates.server_context()
    stand_in, graph = QdrantStandIn(), Oxigraph(tmp_path)
    stand_in.start()
    await graph.start()
    try:
        async with Proxy.before("127.0.0.1", int(stand_in.url.rpartition(":")[2]), tls=tls) as proxy:
            await ask_qdrant(proxy.port, trusted)
        async with Proxy.before("127.0.0.1", graph.port, tls=tls) as proxy:
            await ask_sparql(proxy.port, trusted)
    finally:
        stand_in.kill()
        await graph.stop()
    async with behind("postgres", engines, certificates, "server") as port:
        await ask_postgres(port, trusted)
