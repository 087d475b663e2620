"""The reference page of the decision log: its table and views with every column, read from a real schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from docs.tools.decision_log_questions import OF_READERS, QUESTIONS
from orion_recall.postgres.pool import Row, open_connection

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
read it; so does any client of Postgres as the role `orion_analyst`. That role reads no text of a memory. The role
`orion_reader` reads these, too, in `recall_texts` and `recall_never_selected`: an administrator runs
`GRANT orion_reader TO carla`, where carla has a login of her own.

Each view comes with a question that it answers from an index: a view that is asked without a condition reads the
whole log.
"""


async def decision_log_page(dsn: str) -> str:
    """The table and its views, column by column, as Markdown; `dsn` is of a database with the schema."""
    connection = await open_connection(dsn, name="documentation", statement_timeout_ms=30_000)
    try:
        rows = await connection.fetch(_COLUMNS)
    finally:
        await connection.close()
    lines = [_INTRODUCTION]
    for relation, columns in groupby(rows, key=lambda row: str(row["relation"])):
        lines += _section(relation, list(columns))
    return "\n".join(lines) + "\n"


def _section(relation: str, columns: list[Row]) -> Iterator[str]:
    """The columns: those with a meaning one a line, the others together."""
    kind, about = columns[0]["kind"], columns[0]["about"]
    yield from ("", f"## {relation}", "", f"A {'view' if kind == 'v' else 'table'}. {about or ''}".rstrip(), "")
    if kind == "v":
        names = ", ".join(f"`{row['name']}`" for row in columns)
        yield f"Columns: {names}."
    else:
        yield from (
            f"- `{row['name']}` ({row['type']}): {_first(row['meaning'] or '')}".rstrip(": ") for row in columns
        )
    if sql := QUESTIONS.get(relation):
        mark = "not run: for orion_reader" if relation in OF_READERS else "run"
        yield from ("", f"<!-- {mark} -->", "```sql", sql, "```")


def _first(meaning: str) -> str:
    """The first part of a column's comment, to a semicolon, colon or the end of its sentence."""
    return re.split(r"[;:.]\s", meaning, maxsplit=1)[0].rstrip(".")
