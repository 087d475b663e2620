"""Finds the tables of an earlier version, which had no schema of its own, and moves them into ours.

What the applied SQL files make is seen by making it once more, for a moment, in our schema. What has those names
and columns in the old schema is moved, with the functions of the files, and nothing else is touched: two tables
cannot have one name there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from orion_recall.errors import RecordError
from orion_recall.postgres.address import quote_identifier
from orion_recall.postgres.types import Connection

_KINDS = {"r": "TABLE", "v": "VIEW"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OldTables:
    """The schema of an earlier version's tables, and the SQL files that were applied there."""

    schema: str
    applied: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relation:
    """A table or view: what it is of (`r` or `v`) and its columns with their types."""

    kind: str
    columns: frozenset[str]
    is_mine: bool


async def find_old_tables(
    connection: Connection, ours: str, shipped: Mapping[str, str], *, mark: str
) -> OldTables | None:
    """The first schema where the login looks that holds tables of an earlier version; None when there is none.

    Recognised by its list of applied files: a table of exactly its columns, without `mark`, that names one of the
    `shipped` files with its digest. RecordError: the list cannot be read, belongs to another role, or says what
    cannot be moved. To be called while nobody else moves tables.
    """
    for found in await connection.fetch(_LISTS, ours, mark):
        schema = quote_identifier(found["schema"])
        if not found["can_read"]:
            raise RecordError(
                f"{found['schema']}.orion_migrations, which belongs to {found['owner']}, cannot be read: there may "
                f"be tables of an earlier orion-recall. Let {found['owner']} run `orion-recall migrate` once: "
                f"that moves them to the schema {ours}. Where they are of another program: GRANT SELECT ON "
                f"{schema}.orion_migrations TO {found['role']}"
            )
        rows = await connection.fetch(f"SELECT name, sha256 FROM {schema}.orion_migrations")  # noqa: S608 (quoted)
        applied = {row["name"]: row["sha256"] for row in rows}
        if not applied.items() & shipped.items():
            continue
        if strange := sorted(applied.items() - shipped.items()):
            raise RecordError(
                f"the tables of orion-recall in the schema {found['schema']} cannot be moved to {ours}: "
                f"{strange[0][0]} is not this version's. Bring them up to date with the version that made them, or "
                f"let them stay (ORION_POSTGRES_SCHEMA={found['schema']})"
            )
        if not found["is_mine"]:
            raise RecordError(
                f"the tables of orion-recall in the schema {found['schema']} belong to {found['owner']}: let that "
                f"role run `orion-recall migrate` once, which moves them to the schema {ours}"
            )
        return OldTables(schema=found["schema"], applied=frozenset(applied))
    return None


async def move_tables(connection: Connection, old: OldTables, ours: str, made_by: Sequence[str]) -> None:
    """Moves what the SQL files `made_by` made, inside a transaction in which `ours` is the only schema searched.

    Indexes, constraints, sequences and rights go with their tables, and who has rights on one of them may use our
    schema. Views and functions of others that read them go on to. RecordError: something is not as it was made.
    """
    wanted, functions = await _made(connection, ours, made_by)
    there = await _relations(connection, old.schema)
    for name, relation in wanted.items():
        found = there.get(name)
        if found is None or found.kind != relation.kind or not relation.columns <= found.columns:
            raise RecordError(
                f"{old.schema}.{name} is not as orion-recall made it: nothing was moved. Bring it back, or let "
                f"everything stay where it is (ORION_POSTGRES_SCHEMA={old.schema})"
            )
        if not found.is_mine:
            raise RecordError(
                f"{old.schema}.{name} belongs to another role than the other tables: nothing was moved"
            )
    source, target = quote_identifier(old.schema), quote_identifier(ours)
    for name, relation in wanted.items():
        kind = _KINDS[relation.kind]
        await connection.execute(f"ALTER {kind} {source}.{quote_identifier(name)} SET SCHEMA {target}")
    for function in functions & await _functions(connection, old.schema):
        await connection.execute(f"ALTER FUNCTION {source}.{function} SET SCHEMA {target}")
    for row in await connection.fetch(_READERS, ours):
        await connection.execute(f"GRANT USAGE ON SCHEMA {target} TO {row['role']}")


class _Seen(Exception):
    """Takes back what was made to be looked at."""


async def _made(
    connection: Connection, ours: str, made_by: Sequence[str]
) -> tuple[Mapping[str, _Relation], frozenset[str]]:
    """The relations and functions that the SQL files make."""
    made: tuple[Mapping[str, _Relation], frozenset[str]] = {}, frozenset()
    try:
        async with connection.transaction():
            for sql in made_by:
                await connection.execute(sql)
            made = await _relations(connection, ours), await _functions(connection, ours)
            raise _Seen
    except _Seen:
        return made


async def _relations(connection: Connection, schema: str) -> Mapping[str, _Relation]:
    return {
        row["name"]: _Relation(kind=row["kind"], columns=frozenset(row["columns"]), is_mine=row["is_mine"])
        for row in await connection.fetch(_RELATIONS, schema)
    }


async def _functions(connection: Connection, schema: str) -> frozenset[str]:
    """The functions of a schema with their arguments, quoted."""
    return frozenset(row["name"] for row in await connection.fetch(_FUNCTIONS, schema))


# A superuser owns nothing but its own: a table that another role made, with triggers of its own, is not taken over.
_IS_MINE = """
(c.relowner = current_user::regrole OR pg_has_role(c.relowner, 'USAGE')
    AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user))
"""
_COLUMNS = """
ARRAY(SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod) FROM pg_attribute AS a
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
"""
_LISTS = f"""
SELECT n.nspname::text AS schema, c.relowner::regrole::text AS owner, {_IS_MINE} AS is_mine,
    has_table_privilege(c.oid, 'SELECT') AS can_read, quote_ident(current_user) AS role
FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (name, place)
JOIN pg_namespace AS n ON n.nspname = path.name
JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'orion_migrations' AND c.relkind = 'r'
WHERE n.nspname <> $1 AND obj_description(c.oid, 'pg_class') IS DISTINCT FROM $2
    AND {_COLUMNS} = '{{name text,sha256 text,applied_at timestamp with time zone}}'::text[]
ORDER BY path.place
"""  # noqa: S608 (nothing but the texts above)
_RELATIONS = f"""
SELECT c.relname::text AS name, c.relkind::text AS kind, {_COLUMNS} AS columns, {_IS_MINE} AS is_mine
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'v') ORDER BY c.oid
"""  # noqa: S608 (nothing but the texts above)
_FUNCTIONS: LiteralString = """
SELECT quote_ident(p.proname) || '(' || pg_get_function_identity_arguments(p.oid) || ')' AS name
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND p.prokind = 'f'
"""
# Whoever may do something with one of the tables, a column of one or a sequence.
_READERS: LiteralString = """
SELECT DISTINCT CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END AS role
FROM (
    SELECT c.relowner, (aclexplode(c.relacl)).grantee FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1
    UNION
    SELECT c.relowner, (aclexplode(a.attacl)).grantee FROM pg_attribute AS a
    JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1
) AS given
WHERE given.grantee <> given.relowner
"""
