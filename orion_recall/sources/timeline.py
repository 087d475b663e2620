"""The `sql_timeline` source: recent rows of a Postgres table or view, the service's own or an external one.

The rows of the window are narrowed by tenant and scope, and the newest of them ranked by their words, how recent
they are, and whether they are of the query's own session or node. In the SQL identifiers are quoted, all else is a
parameter. Columns of times may be text or numbers (epoch): what cannot be read is no time, and never an error.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Literal, NamedTuple, cast

from orion_recall.errors import ScopeNotKept, SettingsError, SourceError, TransientSourceError
from orion_recall.postgres.address import quote_identifier, quote_qualified, read_address
from orion_recall.postgres.pool import HeldConnections, Row
from orion_recall.settings import TIMELINE_ROLES
from orion_recall.sources.hits import MOST_LINE, MOST_NAME, MOST_TAGS, MOST_TEXT, cited_id, mapped_key, tags_of
from orion_recall.text.normal import memory_key, text_hash
from orion_recall.text.small_talk import is_chatter
from orion_recall.values import Hit, MemoryView, Scope, SearchRequest, SourceName, in_calendar

log = logging.getLogger("orion_recall.sources")

# The rows of a window are mostly those of the recall before.
_kept_key = lru_cache(maxsize=1024)(memory_key)


OWN_VIEW = "collapse_mirror"
# No row can be shown without these.
_NEEDED = ("id", "ts", "text")
_USUAL_NAMES = {"ts": ("ts", "timestamp", "created_at", "occurred_at"), "text": ("text", "summary", "content")}
_AS_THEY_ARE = ("kind", "title", "speaker", "session_id", "user_id", "agent_id", "run_id", "uri")
_SHOWN_COLUMNS = 40

ColumnKind = Literal["time", "number", "text", "list", "json", "vector", "other"]
_KINDS: Mapping[str, ColumnKind] = {
    **dict.fromkeys(("timestamptz", "timestamp", "date"), "time"),
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8"), "number"),
    **dict.fromkeys(("text", "varchar"), "text"),
    "jsonb": "json",
    "tsvector": "vector",
}

# A view of that name in our own schema is the own one.
CATALOGUE = """
SELECT a.attname::text AS name, base.typname::text AS type, base.typcategory::text AS category,
    quote_ident(a.attname) AS quoted, n.nspname::text AS schema,
    quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS relation,
    c.relkind = 'v' AND c.relname = 'collapse_mirror' AND n.nspname = $2 AS is_own
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type base ON base.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE c.oid = to_regclass($1)
ORDER BY a.attnum
"""

# A column, several that are joined, or several with a label each.
NamedColumns = str | Sequence[str] | Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineTable:
    """The configured table or view: the roles of its columns.

    `named` has the columns that the configuration names; an empty one leaves its role out. `text` is the columns
    that make the text, each with the label before its value; none where the configuration names none. `tenant` is
    whose the table is, for one without a tenant column. `cited_as` is the name of a mapped store: its rows are
    cited under it.
    """

    name: str = OWN_VIEW
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    text: Sequence[tuple[str, str | None]] = ()
    tenant: str | None = None
    cited_as: str | None = None

    @classmethod
    def mapped(
        cls, name: str, named: Mapping[str, NamedColumns], tenant: str | None, *, cited_as: str | None = None
    ) -> TimelineTable:
        """The table with the roles that a mapping names; `text` may be several columns, `a+b` in one string."""
        quote_qualified(name)
        columns = {role: column for role, column in named.items() if isinstance(column, str) and role != "text"}
        if tenant is not None:
            columns.setdefault("tenant", "")
        given = named.get("text", ())
        parts = [part.strip() for part in given.split("+")] if isinstance(given, str) else given
        pairs = parts.items() if isinstance(parts, Mapping) else ((None, one) for one in parts)
        text = [(one, label) for label, one in pairs]
        for role, column in (*columns.items(), *(("text", column) for column, _ in text)):
            if column:
                quote_identifier(column)
            elif role in _NEEDED:
                raise SettingsError(f"ORION_TIMELINE_COLUMNS: the timeline needs a column for {role!r}")
            elif role == "tenant" and tenant is None:
                raise SettingsError(
                    "ORION_TIMELINE_COLUMNS: no column holds the tenant; if the whole table belongs to one tenant, "
                    "say which with ORION_TIMELINE_TENANT"
                )
        return cls(name=name, named=columns, text=text, tenant=tenant, cited_as=cited_as)

    @property
    def is_of_others(self) -> bool:
        """Whether it is another table than the view in our own schema."""
        return self.cited_as is not None or self.name != OWN_VIEW

    def answers_for(self, tenant: str) -> bool:
        """Whether the tenant may have rows here; yes where each row has its own tenant."""
        return self.named.get("tenant") != "" or self.tenant == tenant


class Column(NamedTuple):
    """A column of the table: its quoted name, the kind of its type, and Postgres' name of the type."""

    quoted: str
    kind: ColumnKind
    type: str

    @property
    def as_text(self) -> str:
        """SQL for its value as text; a JSON string without its quotes."""
        if self.kind == "text":
            return self.quoted
        return f"({self.quoted} #>> '{{}}')" if self.kind == "json" else f"{self.quoted}::text"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineShape:
    """The table as found in the database: the existing columns by role, those of the text as `text_0` and so on.

    `labels` has the label of every text column. `cited_as` is the name that its rows are cited under, None for the
    own view, whose ids are those of own memories. `source_ref` is the table as it is configured. `statements` keeps
    the SQL that was made for it, by its conditions: a few forms of scope, which differ in their values alone.
    """

    relation: str
    columns: Mapping[str, Column]
    labels: Mapping[str, str | None]
    cited_as: str | None
    source_ref: str
    of_one_tenant: bool
    statements: dict[tuple[str, ...], str] = field(default_factory=dict["tuple[str, ...]", str], compare=False)

    def column(self, role: str) -> Column:
        """The role's column. ScopeNotKept when the table has none."""
        if role not in self.columns:
            raise ScopeNotKept(self._lacks(role))
        return self.columns[role]

    @property
    def without_tenant(self) -> str | None:
        """The error where no column and no setting names the tenant, so that every query is refused; else None."""
        return None if self.of_one_tenant or "tenant" in self.columns else self._lacks("tenant")

    def _lacks(self, role: str) -> str:
        whose = "; say whose the table is with ORION_TIMELINE_TENANT" if role == "tenant" else ""
        what = f"the timeline {self.source_ref} has no column for {role}"
        return f"{what}: it cannot keep to this query's scope{whose}"

    def values(self) -> dict[str, str]:
        """SQL for the value of every column: as text, but for the time, a list of tags and a text vector."""
        sql = {role: one.as_text for role, one in self.columns.items()} | {"ts": time_sql(self.columns["ts"])}
        for role in ("tags", "search"):
            if role in self.columns and self.columns[role].kind in ("list", "vector"):
                sql[role] = self.columns[role].quoted
        return sql

    def joined(self, row: Row) -> str:
        """The text of a row, its columns a line each."""
        if tuple(self.labels.values()) == (None,):
            return row["text_0"] or ""
        parts = ((row[name], label) for name, label in self.labels.items())
        lines = (f"{label}: {text}" if label else text for text, label in parts if text and text.strip())
        return "\n".join(lines)[:MOST_TEXT]


def _shape_of(table: TimelineTable, catalogue: Sequence[Row]) -> TimelineShape:
    """The table out of the rows of `CATALOGUE`; SourceError when it is not there, or lacks a column."""
    if not table.is_of_others and not (catalogue and catalogue[0]["is_own"]):
        schema = catalogue[0]["schema"] if catalogue else "public"
        raise SourceError(
            f"the view {OWN_VIEW} of this service's memories is not there: run `orion-recall migrate`, or name "
            f"another table with its schema (ORION_TIMELINE_TABLE={schema}.{OWN_VIEW})"
        )
    if not catalogue:
        raise SourceError(f"there is no table or view {table.name} that this service's Postgres login can see")
    first = catalogue[0]
    there: dict[str, Column] = {}
    for row in catalogue:
        kind: ColumnKind = "list" if row["category"] == "A" else _KINDS.get(row["type"], "other")
        there[row["name"]] = Column(row["quoted"], kind, row["type"])
    text = table.text or [(_usual(table, "text", there), None)]
    labels = {f"text_{place}": label for place, (_, label) in enumerate(text)}
    named = {role: table.named.get(role) for role in TIMELINE_ROLES if role != "text"}
    columns: dict[str, Column] = {}
    for role, name in (*named.items(), *zip(labels, (column for column, _ in text), strict=True)):
        if name is None and role in _NEEDED:
            name = _usual(table, role, there)
        if name is None:  # a column of the role's own name has the role, but in a mapped store
            found = there.get(role) if table.cited_as is None else None
            if found is not None and (role != "search" or found.kind == "vector"):
                columns[role] = found
        elif name:
            if name not in there:
                plays = "text" if role in labels else role
                what = f"the timeline {table.name} has no column {name!r}, which plays {plays}"
                raise SourceError(f"{what}; it has {_listed(there)}")
            if role == "search" and there[name].kind != "vector":
                raise SourceError(f"the timeline {table.name}: {name!r} for search is no tsvector")
            columns[role] = there[name]
    return TimelineShape(
        relation=first["relation"],
        columns=columns,
        labels=labels,
        cited_as=table.cited_as or (None if first["is_own"] else table.name),
        source_ref=table.cited_as or table.name,
        of_one_tenant=table.named.get("tenant") == "",
    )


def _usual(table: TimelineTable, role: str, there: Mapping[str, Column]) -> str:
    names = _USUAL_NAMES.get(role, (role,))
    if (found := next((name for name in names if name in there), None)) is not None:
        return found
    raise SourceError(
        f"the timeline {table.name} has no column {' or '.join(names)} to play {role}: name one of its columns "
        f"({_listed(there)}) in ORION_TIMELINE_COLUMNS, or under `columns` of the store"
    )


def _listed(there: Mapping[str, Column]) -> str:
    return ", ".join(islice(there, _SHOWN_COLUMNS)) + (", …" if len(there) > _SHOWN_COLUMNS else "")


class TimelineSource:
    """The timeline source. Its own connections keep a slow timeline from delaying the decision log."""

    name: SourceName = "sql_timeline"

    def __init__(self, dsn: str, table: TimelineTable, *, connections: int = 4, timeout_ms: int = 5000) -> None:
        self._connections = HeldConnections(
            dsn, name="timeline", most=connections, timeout_ms=timeout_ms, for_external_tables=table.is_of_others
        )
        self._table, self._own_schema = table, read_address(dsn).schema
        self._shape: TimelineShape | None = None
        self.answers_for = table.answers_for

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """The window's rows, best first; none for a tenant whose table this is not. The score is in [0, 1]."""
        if not self.answers_for(request.scope.tenant):
            return []
        shape = await self.shape()
        statement, values = timeline_query(shape, request)
        try:
            rows = await self._fetch(statement, values)
        except TransientSourceError:
            raise
        except SourceError:
            self._shape = None  # the table may have been altered
            raise
        return [_hit(row, request.scope.tenant, shape) for row in rows]

    async def shape(self) -> TimelineShape:
        """The table as it is in the database, looked up once. SourceError when it does not fit its mapping."""
        if self._shape is None:
            looked_up = [quote_qualified(self._table.name), self._own_schema]
            self._shape = _shape_of(self._table, await self._fetch(CATALOGUE, looked_up))
            if (problem := self._shape.without_tenant) is not None:
                log.warning("%s", problem)
        return self._shape

    async def sample(self) -> Mapping[str, str | None]:
        """The newest row by role, all as text, without what is searched; empty for an empty table.

        Where times are worked out, of the first `COUNTED` rows.
        """
        shape = await self.shape()
        values = shape.values()
        chosen = (f"left(({sql})::text, {MOST_TEXT}) AS {name}" for name, sql in values.items() if name != "search")
        table = shape.relation if shape.columns["ts"].kind == "time" else _first_rows(shape)
        rows = await self._fetch(
            f"SELECT {', '.join(chosen)} FROM {table} ORDER BY {values['ts']} DESC NULLS LAST LIMIT 1",  # noqa: S608
            [],
        )
        if not rows:
            return {}
        roles = {role: rows[0][role] for role in values if role != "search" and role not in shape.labels}
        return roles | {"text": shape.joined(rows[0]) or None}

    async def lacking(self) -> tuple[int, Mapping[str, int]]:
        """The number of rows, `COUNTED` at most, and of those never found for want of a readable role, by role."""
        shape = await self.shape()
        identity, text = _usable(shape)
        usable = {"id": identity, "ts": f"{time_sql(shape.columns['ts'])} IS NOT NULL", "text": text}
        counts = (f"count(*) FILTER (WHERE ({sql}) IS NOT TRUE) AS {role}" for role, sql in usable.items())
        (row,) = await self._fetch(f"SELECT count(*) AS rows, {', '.join(counts)} FROM {_first_rows(shape)}", [])  # noqa: S608
        return row["rows"], {role: row[role] for role in usable if row[role]}

    async def close(self) -> None:
        await self._connections.close()

    async def _fetch(self, statement: str, values: Sequence[Any]) -> Sequence[Row]:
        return await self._connections.fetch("reading the timeline", statement, values)


def _first_rows(shape: TimelineShape) -> str:
    return f"(SELECT * FROM {shape.relation} LIMIT {COUNTED}) AS first_rows"  # noqa: S608 (quoted)


def unreadable_rows(total: int, lacking: Mapping[str, int]) -> str:
    wants = {"id": "no id that can be used", "ts": "no time that can be read", "text": "no text"}
    of_them = f"{total:,} rows{' that were looked at' if total >= COUNTED else ''}"
    counts = "; ".join(f"{count:,} of {of_them} have {wants[role]}" for role, count in lacking.items())
    return f"{counts}: they are never found"


def _hit(row: Row, tenant: str, shape: TimelineShape) -> Hit:
    # Most rows are in the index too, or are not ranked: a memory is made only when it is read.
    key = mapped_key(shape.cited_as, tenant, row["id"]) if shape.cited_as else _kept_key(tenant, row["id"])
    return Hit(key=key, score=row["score"], read=partial(_memory, row, shape), source_ref=shape.source_ref)


def _memory(row: Row, shape: TimelineShape) -> MemoryView:
    text, moment = shape.joined(row), row["ts"]
    return MemoryView(
        id=cited_id(shape.cited_as, row["id"]) if shape.cited_as else row["id"],
        text=text,
        text_hash=text_hash(text),
        **{role: row.get(role) for role in _AS_THEY_ARE},
        ts=moment.timestamp(),
        # An own memory may have been found by another source as well, and better: each hit says where it is from.
        source_ref=shape.source_ref if shape.cited_as else None,
        tags=_tags_in(row.get("tags")),
        chatter=is_chatter(text),
    )


def _tags_in(value: Any) -> tuple[str, ...]:
    """The tags of a list, of a JSON list as text, and of text with commas between them."""
    if isinstance(value, str):
        if value.lstrip().startswith(("[", "{")):
            with contextlib.suppress(ValueError, RecursionError):
                return _tags_in(json.loads(value))
        value = [tag.strip() for tag in value.split(",")]
    return tags_of(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else ()


_NEWEST = 200
COUNTED = 100_000
# More would be refused by to_tsvector, and with it the whole query.
_SEARCHED_CHARACTERS = 200_000
# From here on a number is read as milliseconds (1973), up to here (the year 5138).
_MILLISECONDS, _LAST_MILLISECOND = 10**11, 10**14
# No zone is further from UTC.
_ZONE_S, _DAY_S = 15 * 3600.0, 86_400.0
_LATEST = 4e9  # of 2096: as text it has ten digits, as those of the last 25 years

# Every date of the calendar from the year 1000 to 2999, with an optional time and zone. No backslashes: what they
# mean in a literal is a setting of the server.
_DATE = (
    "(?:[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[12][0-9](?:0[48]|[2468][048]|[13579][26])|(?:1[26]|2[048])00)-02-29)"
)
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]+)?)?"
_ZONE = "(?: ?(?:[Zz]|UTC|GMT|[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?))?"
_ISO = f"^{_DATE}(?:[Tt ]{_CLOCK}{_ZONE})?$"
_EPOCH = "^[0-9]{9,13}(?:[.][0-9]+)?$"
# Postgres refuses what is much longer, such as a fraction of a hundred digits.
_LONGEST = 40


def window_of(request: SearchRequest) -> tuple[float, float]:
    """Where the window begins and ends, in epoch seconds: never after the query's now.

    It begins where the query says (`since`). Else a time that the question names is the window, with a day on both
    sides, as people are vague about days; without one it is the last minutes, as many as the profile says.
    """
    question, since = request.question, request.scope.since
    usual = question.now - request.window_minutes * 60
    named = [(one.start, one.end) for one in question.time.intervals]
    starts = [start for start, _ in named if start is not None]
    if since is not None:
        return since, question.now
    if not named or len(starts) < len(named) or min(starts) >= usual:
        return usual, question.now
    ends = [question.now if end is None else end + _DAY_S for _, end in named]
    return min(starts) - _DAY_S, min(question.now, max(ends))


def timeline_query(shape: TimelineShape, request: SearchRequest) -> tuple[str, list[Any]]:
    """The statement and its values. ScopeNotKept when the scope asks for what the table has no column for."""
    scope, question = request.scope, request.question
    if scope.told:
        raise ScopeNotKept("a timeline cannot be searched by the times that its texts tell")
    since, until = map(_moment, window_of(request))
    values: list[Any] = [since, until]

    def value(one: Any) -> str:
        values.append(one)
        return f"${len(values)}"

    conditions = [*_narrowed(shape, scope, value), *_usable(shape)]
    conditions += _roughly(shape.columns["ts"], since.timestamp(), until.timestamp(), value)
    # A column without a zone is read as UTC, which is the session's.
    window = ["ts >= $1::timestamptz", "ts <= $2::timestamptz"]
    for sign, moment in (("<", scope.until), ("<=", scope.as_of)):
        if moment is not None:
            window.append(f"ts {sign} {value(_moment(moment))}::timestamptz")
    # In a SELECT of its own it is read once; a plan for any values would read it anew for every row, twice.
    words = f"(SELECT websearch_to_tsquery('english', {value(' or '.join(sorted(question.terms)[:32]))}))"
    own = {"session_id": value(question.session_id), "node_id": value(question.node_id)}
    limit = value(request.limit)
    parts = (*conditions, *window, words)
    if (statement := shape.statements.get(parts)) is None:
        statement = shape.statements[parts] = _statement(
            shape, conditions, window, _score(shape, words, own), limit
        )
    return statement, values


def _statement(
    shape: TimelineShape, conditions: Sequence[str], window: Sequence[str], score: str, limit: str
) -> str:
    """SQL for the window's rows, best first; nothing that is shown of one is longer than of an own memory."""
    chosen, searched, bounded = shape.values(), list[str](), list[str]()
    for name in chosen:
        if name == "title" or name in shape.labels:
            searched.append(f"left({name}, {MOST_TEXT})")
        if name == "tags" and shape.columns[name].kind == "list":
            first = f"SELECT left(tag::text, {MOST_NAME}) FROM unnest(tags[:{MOST_TAGS}]) AS tag"  # noqa: S608
            bounded.append(f"ARRAY({first}) AS tags")
        elif name not in ("ts", "search"):
            is_text = name == "tags" or name in shape.labels
            most = MOST_TEXT if is_text else MOST_LINE if name in ("id", "title", "uri") else MOST_NAME
            bounded.append(f"left({name}, {most}) AS {name}")
    vector = f"to_tsvector('english', left(concat_ws(' ', {', '.join(searched)}), {_SEARCHED_CHARACTERS}))"
    names = ", ".join(name for name in chosen if name not in ("ts", "search"))
    # OFFSET 0 keeps the planner from evaluating the pattern of a text column several times a row.
    barrier = "" if shape.columns["ts"].kind == "time" else " OFFSET 0"
    rows = (
        f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in chosen.items())} "  # noqa: S608 (quoted)
        f"FROM {shape.relation} WHERE {' AND '.join(conditions)}{barrier}"
    )
    newest = (
        f"SELECT {names}, ts::timestamptz AS ts, {'search' if 'search' in chosen else vector} AS searched "  # noqa: S608
        f"FROM ({rows}) AS rows WHERE {' AND '.join(window)} ORDER BY rows.ts DESC LIMIT {_NEWEST}"
    )
    return (
        f"SELECT {', '.join(bounded)}, ts, ({score})::float8 AS score FROM ({newest}) AS newest "  # noqa: S608 (quoted above)
        f"ORDER BY score DESC, ts DESC, id LIMIT {limit}"
    )


def _usable(shape: TimelineShape) -> tuple[str, str]:
    """SQL that holds for rows with an id, and for those with a text."""
    columns = (shape.columns[name].as_text for name in shape.labels)
    texts = " OR ".join(f"left({column}, {MOST_TEXT}) ~ '[^[:space:]]'" for column in columns)
    column, identity = shape.columns["id"], shape.columns["id"].as_text
    if column.kind == "number":
        return f"{column.quoted} IS NOT NULL", f"({texts})"
    return f"{identity} <> '' AND length({identity}) <= {MOST_LINE}", f"({texts})"


def _narrowed(shape: TimelineShape, scope: Scope, value: Callable[[Any], str]) -> Iterable[str]:
    # A table of one tenant is only searched for that tenant.
    ids = {"tenant": None if shape.of_one_tenant else scope.tenant}
    ids |= {role: getattr(scope, role) for role in ("session_id", "user_id", "agent_id", "run_id")}
    for role, wanted in ids.items():
        if wanted is not None:
            yield f"{shape.column(role).as_text} = {value(wanted)}::text"
    for role, several in (("kind", scope.kinds), ("speaker", scope.speakers)):
        if several:
            yield f"{shape.column(role).as_text} = ANY({value(list(several))}::text[])"
    if scope.tags:
        column, tags = shape.column("tags"), f"{value(list(scope.tags))}::text[]"
        if column.kind == "list":
            yield f"{column.quoted}{'' if column.type == '_text' else '::text[]'} && {tags}"
        elif column.kind == "json":
            yield f"{column.quoted} ?| {tags}"
        else:  # separated by commas, or a list in JSON
            text = f"btrim({column.as_text}, '[] \"')"
            yield f"regexp_split_to_array({text}, '\"?[[:space:]]*,[[:space:]]*\"?') && {tags}"


def time_sql(column: Column) -> str:
    """SQL for the column's time, null where it cannot be read."""
    if column.kind == "time":
        return column.quoted
    if column.kind == "number":
        return _epoch(column.quoted)
    text = column.as_text
    # In bytes order: patterns know no collation that is not deterministic.
    plain = f'{text} COLLATE "C"'
    return (
        f"CASE WHEN length({text}) > {_LONGEST} THEN NULL WHEN {plain} ~ '{_ISO}' THEN {text}::timestamptz "
        f"WHEN {plain} ~ '{_EPOCH}' THEN {_epoch(f'{text}::float8')} END"
    )


def _epoch(number: str) -> str:
    return (
        f"CASE WHEN {number} >= 0 AND {number} < {_MILLISECONDS} THEN to_timestamp({number}::float8) "
        f"WHEN {number} >= {_MILLISECONDS} AND {number} <= {_LAST_MILLISECOND} "
        f"THEN to_timestamp({number}::float8 / 1000) END"
    )


def _roughly(column: Column, since: float, until: float, value: Callable[[Any], str]) -> Iterable[str]:
    """SQL that holds for all of the window and little besides, and that an index on the column can serve."""
    if column.kind == "number":
        low, high = int(since), int(until) + 1
        ranges = ((max(low * 1000, _MILLISECONDS), high * 1000), (low, high))
        parts = [
            f"{column.quoted} BETWEEN {value(least)}::bigint AND {value(most)}::bigint" for least, most in ranges
        ]
        yield f"({' OR '.join(parts)})"
    elif column.kind == "text" and since < 10**9:
        # Of numbers of several lengths the order as text is not that of their values.
        yield f"{column.quoted} >= {value('0')}::text"
    elif column.kind == "text":
        # ISO 8601 sorts by time, up to the zone. The seconds are the first ten digits of milliseconds, too.
        days = (f"{_moment(day):%Y-%m-%d}" for day in (since - _ZONE_S, until + _ZONE_S + _DAY_S))
        ranges = (tuple(days), (str(int(since)), str(int(until) + 1)))
        parts = [
            f"{column.quoted} >= {value(low)}::text AND {column.quoted} < {value(high)}::text"
            for low, high in ranges
        ]
        yield f"({' OR '.join(parts)})"


def _score(shape: TimelineShape, words: str, own: Mapping[str, str]) -> str:
    """SQL in [0, 1]: half for sharing a word at all, so that no row is ahead of one that does by being newer."""
    recency = (
        "coalesce(extract(epoch FROM ts - $1::timestamptz) "
        "/ nullif(extract(epoch FROM $2::timestamptz - $1::timestamptz), 0), 0)"
    )
    matched = f"coalesce((searched @@ {words})::int, 0)"
    # What shares no word has no rank: it is not worked out.
    rank = f"CASE WHEN searched @@ {words} THEN ts_rank_cd(searched, {words}, 32) ELSE 0 END"
    either = " OR ".join(
        f"coalesce({role} = {value}::text, false)" if role in shape.columns else f"{value}::text = ''"
        for role, value in own.items()
    )
    return f"0.5 * {matched} + 0.2 * ({rank}) + 0.2 * {recency} + 0.1 * (CASE WHEN {either} THEN 1 ELSE 0 END)"


def _moment(seconds: float) -> datetime:
    return in_calendar(min(seconds, _LATEST))
