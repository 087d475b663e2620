"""The reference page of the decision log: its table and views with every column, read from a real schema."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from docs.tools.decision_log_questions import MEASURED_MS, OF_READERS, QUESTIONS
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
whole log. The times are medians on ten million decisions of 90 days (111,000 a day, 21 GB with their indexes), with
20,000 memories and 100,000 messages of feedback, in the embedded Postgres, on two cores that were busy with other
work. The first time, with nothing in memory, `recall_never_selected` took 2.2 s. Retention deleted the oldest day
in 11 s. Since then the views check the size of each number, which made `recall_selected` about a third slower.
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
    kind, about = columns[0]["kind"], columns[0]["about"]
    yield from ("", f"## {relation}", "")
    yield from (f"A {'view' if kind == 'v' else 'table'}. {about or ''}".rstrip(), "")
    yield from ("| column | type | meaning |", "|---|---|---|")
    for row in columns:
        meaning = (row["meaning"] or "").replace("|", "\\|")
        yield f"| `{row['name']}` | {row['type']} | {meaning} |"
    if sql := QUESTIONS.get(relation):
        mark = "not run: for orion_reader" if relation in OF_READERS else "run"
        yield from ("", f"<!-- {mark} -->", "```sql", sql, "```")
        if (spent := MEASURED_MS.get(relation)) is not None:
            yield from ("", f"On ten million decisions: {spent:,} ms.")
