"""The reference page of the decision log: its table and views with every column, read from a real schema."""

from __future__ import annotations

from orion_recall.postgres.pool import open_connection

_COLUMNS = """
SELECT c.relname AS relation, c.relkind::text AS kind, obj_description(c.oid) AS about,
       a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, col_description(c.oid, a.attnum) AS meaning
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relname LIKE 'recall\\_%' AND c.relkind IN ('r', 'p', 'v') AND pg_table_is_visible(c.oid)
ORDER BY c.relkind, c.relname, a.attnum
"""
_INTRODUCTION = """\
# The decision log

Every query leaves one decision, which a worker writes to Postgres. `orion-recall decisions list`, `show` and `sql`
read it; so does any client of Postgres as the role `orion_analyst`.
"""


async def decision_log_page(dsn: str) -> str:
    """The table and its views, column by column, as Markdown; `dsn` is of a database with the schema."""
    connection = await open_connection(dsn, name="documentation", statement_timeout_ms=30_000)
    try:
        rows = await connection.fetch(_COLUMNS)
    finally:
        await connection.close()
    lines = [_INTRODUCTION]
    last = None
    for row in rows:
        if row["relation"] != last:
            last = row["relation"]
            kind = "view" if row["kind"] == "v" else "table"
            lines += ["", f"## {last}", "", f"A {kind}. {row['about'] or ''}".rstrip(), ""]
            lines += ["| column | type | meaning |", "|---|---|---|"]
        meaning = (row["meaning"] or "").replace("|", "\\|")
        lines.append(f"| `{row['name']}` | {row['type']} | {meaning} |")
    return "\n".join(lines) + "\n"
