"""Rights of a worker's login in a database whose schema belongs to another role.

The rights stand beside the schema, in `memory/rights.sql` and `decisions/rights.sql`: who adds a table says there
what a worker does with it.
"""

from __future__ import annotations

from importlib.resources import files

from orion_recall.errors import RecordError
from orion_recall.postgres.address import read_address
from orion_recall.postgres.pool import open_connection, quote_identifier, translate

WORKER_ROLE = "orion_worker"

_STATEMENT_TIMEOUT_MS = 30_000
_ROLE_EXISTS = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)"
# Asked first: a GRANT by somebody else who has some right on the table only warns that it gave nothing.
_OWNS_THE_SCHEMA = """
SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'orion_migrations'::regclass
"""
# To see that nothing is left to apply.
_MIGRATIONS = f"""
REVOKE ALL ON orion_migrations FROM {WORKER_ROLE};
GRANT SELECT ON orion_migrations TO {WORKER_ROLE};
"""


async def grant_worker_rights(dsn: str) -> bool:
    """Give the role `orion_worker` its rights and no others, as the schema's owner; False when there is no role.

    In one transaction, so that a worker that runs meanwhile misses none. Raises RecordError when Postgres is away,
    or when this login does not own the tables.
    """
    connection = await open_connection(dsn, name="rights", statement_timeout_ms=_STATEMENT_TIMEOUT_MS)
    try:
        with translate("giving a worker its rights"):
            if not await connection.fetchval(_ROLE_EXISTS, WORKER_ROLE):
                return False
            if not await connection.fetchval(_OWNS_THE_SCHEMA):
                raise RecordError(
                    f"this login does not own the tables, so it cannot give {WORKER_ROLE} its rights: let "
                    "ORION_POSTGRES_DSN name the role that applied the schema"
                )
            schema = quote_identifier(read_address(dsn).schema)
            async with connection.transaction():
                await connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {WORKER_ROLE}")
                for sql in (*_shipped_rights(), _MIGRATIONS):
                    await connection.execute(sql)
            return True
    finally:
        await connection.close()


def _shipped_rights() -> list[str]:
    package = files("orion_recall")
    return [(package / folder / "rights.sql").read_text("utf-8") for folder in ("memory", "decisions")]
