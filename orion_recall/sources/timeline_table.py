"""The timeline's table: its configured columns, and the columns found in the database.

Columns are looked up in the catalogue, so that a table needs neither the names nor the types of the own view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from orion_recall.errors import ScopeNotKept, SettingsError, SourceError
from orion_recall.postgres.address import quote_identifier, quote_qualified
from orion_recall.postgres.pool import Row
from orion_recall.setting_values import TIMELINE_ROLES

OWN_VIEW = "collapse_mirror"
# No row can be shown without these.
_NEEDED = ("id", "ts", "text")
_USUAL_NAMES = {"ts": ("ts", "timestamp", "created_at", "occurred_at"), "text": ("text", "summary", "content")}
_SHOWN_COLUMNS = 40

ColumnKind = Literal["time", "number", "text", "list", "json", "vector", "other"]
_KINDS: Mapping[str, ColumnKind] = {
    **dict.fromkeys(("timestamptz", "timestamp", "date"), "time"),
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8"), "number"),
    **dict.fromkeys(("text", "varchar"), "text"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    "tsvector": "vector",
}

# A NUL, half of a character, and a whole one as JSON writes them. No backslashes: what they mean in a literal is a
# setting of the server.
_UNREADABLE = "[[.backslash.]]u(0000|[dD][89a-fA-F])"
_PAIR = "[[.backslash.]]u[dD][89abAB][0-9a-fA-F]{2}[[.backslash.]]u[dD][c-fC-F][0-9a-fA-F]{2}"

# A view of that name in our own schema is the own one.
CATALOGUE = """
SELECT a.attname::text AS name, base.typname::text AS type, base.typcategory::text AS category,
    n.nspname::text AS schema, c.relname::text AS relation,
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


class TextColumn(NamedTuple):
    """One column of the text, and the label before its value."""

    column: str
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineTable:
    """The configured table or view: the roles of its columns.

    `named` has the columns that the configuration names; an empty one leaves its role out. `text` is the columns
    that make the text, none where the configuration names none. `tenant` is whose the table is, for one without a
    tenant column. `cited_as` is the name of a mapped store: its rows are cited under it.
    """

    name: str = OWN_VIEW
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    text: tuple[TextColumn, ...] = ()
    tenant: str | None = None
    cited_as: str | None = None

    def __post_init__(self) -> None:
        quote_qualified(self.name)
        for role, column in self.named.items():
            if column:
                quote_identifier(column)
            elif role in _NEEDED:
                raise SettingsError(f"ORION_TIMELINE_COLUMNS: the timeline needs a column for {role!r}")
            elif role == "tenant" and self.tenant is None:
                raise SettingsError(
                    "ORION_TIMELINE_COLUMNS: no column holds the tenant; if the whole table belongs to one tenant, "
                    "say which with ORION_TIMELINE_TENANT"
                )
        for part in self.text:
            quote_identifier(part.column)

    @classmethod
    def mapped(
        cls, name: str, named: Mapping[str, NamedColumns], tenant: str | None, *, cited_as: str | None = None
    ) -> TimelineTable:
        """The table with the roles that a mapping names; `text` may be several columns, `a+b` in one string."""
        columns = {role: column for role, column in named.items() if isinstance(column, str) and role != "text"}
        text = _text_columns(named["text"]) if "text" in named else ()
        if tenant is not None:
            columns.setdefault("tenant", "")
        return cls(name=name, named=columns, text=text, tenant=tenant, cited_as=cited_as)

    @property
    def is_of_others(self) -> bool:
        """Whether it is another table than the view in our own schema."""
        return self.cited_as is not None or self.name != OWN_VIEW

    def answers_for(self, tenant: str) -> bool:
        """Whether the tenant may have rows here; yes where each row has its own tenant."""
        return self.named.get("tenant") != "" or self.tenant == tenant

    def looks_for(self, role: str) -> bool:
        """Whether a column of the role's own name has the role. In a mapped store, only a needed role."""
        return role not in self.named and (self.cited_as is None or role in _NEEDED)


class Column(NamedTuple):
    """A column of the table: its quoted name, the kind of its type, and Postgres' name of the type."""

    quoted: str
    kind: ColumnKind
    type: str

    @property
    def as_text(self) -> str:
        """SQL for its value as text; a JSON string without its quotes. Null for JSON that no text can hold."""
        if self.kind == "text":
            return self.quoted
        if self.kind != "json":
            return f"{self.quoted}::text"
        text = f"{self.quoted} #>> '{{}}'"
        return f"({text})" if self.type == "jsonb" else f"(CASE WHEN {self._is_readable} THEN {text} END)"

    @property
    def _is_readable(self) -> str:
        # jsonb has refused such rows. To cast one of them would end the whole query.
        json = f"{self.quoted}::text"
        pairless = f"regexp_replace({json}, '{_PAIR}', '', 'g')"
        return f"({json} !~ '{_UNREADABLE}' OR {pairless} !~ '{_UNREADABLE}')"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineShape:
    """The table as found in the database: the existing columns by role, and their types.

    `labels` has the label of every text column. `cited_as` is the name that its rows are cited under, None for the
    own view, whose ids are those of own memories. `source_ref` is the table as it is configured. `statements` keeps
    the SQL that was made for it, by its conditions: a few forms of scope, which differ in their values alone.
    """

    relation: str
    columns: Mapping[str, Column]
    text: tuple[Column, ...]
    labels: tuple[str | None, ...]
    cited_as: str | None
    source_ref: str
    of_one_tenant: bool
    statements: dict[tuple[str, ...], str] = field(
        default_factory=dict["tuple[str, ...]", str], compare=False, repr=False
    )

    def column(self, role: str) -> Column:
        """The role's column. ScopeNotKept when the table has none."""
        if role in self.columns:
            return self.columns[role]
        raise ScopeNotKept(self._lacks(role))

    @property
    def without_tenant(self) -> str | None:
        """The error where no column and no setting names the tenant, so that every query is refused; else None."""
        return None if self.of_one_tenant or "tenant" in self.columns else self._lacks("tenant")

    def _lacks(self, role: str) -> str:
        whose = "; say whose the table is with ORION_TIMELINE_TENANT" if role == "tenant" else ""
        return (
            f"the timeline {self.source_ref} has no column for {role}: it cannot keep to this query's scope{whose}"
        )


def shape_of(table: TimelineTable, catalogue: Sequence[Row]) -> TimelineShape:
    """The table with the types of its columns, out of the rows of `CATALOGUE`.

    SourceError when it is not there, or lacks a column that the mapping names or that no row can do without.
    """
    if not catalogue and not table.is_of_others:
        raise SourceError(_not_the_own_view("public"))
    if not catalogue:
        raise SourceError(f"there is no table or view {table.name} that this service's Postgres login can see")
    first = catalogue[0]
    if not table.is_of_others and not first["is_own"]:
        raise SourceError(_not_the_own_view(first["schema"]))
    there = {row["name"]: _column(row) for row in catalogue}
    columns = {role: column for role in TIMELINE_ROLES if (column := _playing(table, role, there))}
    text = table.text or (TextColumn(_usual(table, "text", there)),)
    return TimelineShape(
        relation=f"{_quoted(first['schema'])}.{_quoted(first['relation'])}",
        columns=columns,
        text=tuple(_existing(table, "text", part.column, there) for part in text),
        labels=tuple(part.label for part in text),
        cited_as=table.cited_as or (None if first["is_own"] else table.name),
        source_ref=table.cited_as or table.name,
        of_one_tenant=table.named.get("tenant") == "",
    )


def _not_the_own_view(schema: str) -> str:
    return (
        f"the view {OWN_VIEW} of this service's memories is not there: run `orion-recall migrate`, or name another "
        f"table with its schema (ORION_TIMELINE_TABLE={schema}.{OWN_VIEW})"
    )


def _playing(table: TimelineTable, role: str, there: Mapping[str, Column]) -> Column | None:
    column = table.named.get(role)
    if role == "text" or column == "":
        return None
    if column is not None:
        found = _existing(table, role, column, there)
        if role == "search" and found.kind != "vector":
            raise SourceError(f"the timeline {table.name}: {column!r} for search is no tsvector")
        return found
    if role in _NEEDED:
        return there[_usual(table, role, there)]
    found = there.get(role) if table.looks_for(role) else None
    return None if found is not None and role == "search" and found.kind != "vector" else found


def _existing(table: TimelineTable, role: str, column: str, there: Mapping[str, Column]) -> Column:
    if column not in there:
        raise SourceError(
            f"the timeline {table.name} has no column {column!r}, which plays {role}; it has {_listed(there)}"
        )
    return there[column]


def _usual(table: TimelineTable, role: str, there: Mapping[str, Column]) -> str:
    names = _USUAL_NAMES.get(role, (role,))
    for name in names:
        if name in there:
            return name
    raise SourceError(
        f"the timeline {table.name} has no column {' or '.join(names)} to play {role}: name one of its columns "
        f"({_listed(there)}) in ORION_TIMELINE_COLUMNS, or under `columns` of the store"
    )


def _listed(there: Mapping[str, Column]) -> str:
    names = list(there)
    return ", ".join(names[:_SHOWN_COLUMNS]) + (", …" if len(names) > _SHOWN_COLUMNS else "")


def _column(row: Row) -> Column:
    kind: ColumnKind = "list" if row["category"] == "A" else _KINDS.get(row["type"], "other")
    return Column(quoted=_quoted(row["name"]), kind=kind, type=row["type"])


def _quoted(name: str) -> str:
    # A name of the catalogue may hold anything, unlike one of a configuration.
    return '"' + name.replace('"', '""') + '"'


def _text_columns(columns: NamedColumns) -> tuple[TextColumn, ...]:
    if isinstance(columns, str):
        columns = [part.strip() for part in columns.split("+")]
    if isinstance(columns, Mapping):
        parts = tuple(TextColumn(column, label) for label, column in columns.items())
    else:
        parts = tuple(TextColumn(column) for column in columns)
    if not any(part.column for part in parts):
        raise SettingsError("ORION_TIMELINE_COLUMNS: the timeline needs a column for 'text'")
    return parts
