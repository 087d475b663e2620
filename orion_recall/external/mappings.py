"""Mappings of external stores: which of their fields play which role, from the YAML file of `ORION_MAPPINGS`.

Memories from there are cited under the mapping's name. Nothing is ever written there. Secrets are in environment
variables, which the file only names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from orion_recall.errors import SettingsError

_MAX_BYTES = 256 * 1024
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]
Iri = Annotated[str, Field(pattern=r'^[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f<>"{}|\\^`]+$')]
HttpUrl = Annotated[str, Field(pattern=r"^https?://[^\s]+$")]


def _one_of(section: str) -> dict[str, Any]:
    """For the JSON Schema: that either the store or its roles have a tenant."""
    own = {"required": ["tenant"], "properties": {"tenant": {"type": "string"}}}
    return {"oneOf": [own, {"properties": {section: own}, "required": [section]}]}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Store(_Strict):
    """A store of somebody: of one tenant, or each memory says whose it is, under `tenant` of the roles."""

    env_key: ClassVar[str]
    roles_in: ClassVar[str | None] = None

    name: Name

    @property
    def secret(self) -> str | None:
        """The secret out of the environment variable that the mapping names; SettingsError when it is not set."""
        variable: str | None = getattr(self, self.env_key)
        value = os.environ.get(variable) if variable is not None else None
        if variable is not None and not value:
            raise SettingsError(
                f"the store {self.name!r} takes its secret from {variable}, which is not set: set it for the worker"
            )
        return value

    @model_validator(mode="after")
    def _belongs_to_somebody(self) -> Self:
        values: Any = self
        if self.roles_in and (values.tenant is None) == (not getattr(values, self.roles_in).tenant):
            raise ValueError(
                f"say whose it is: either `tenant` (all of it belongs to one) or `{self.roles_in}.tenant` (each "
                "memory says it)"
            )
        return self


class PayloadKeys(_Strict):
    """The roles of a collection's payload keys; dotted keys reach into objects.

    `time` holds ISO 8601 text, epoch seconds or epoch milliseconds, as `time_format` says: a scope with `since` or
    `until` is kept to by the server in that unit. A scope that needs a role which is not
    mapped is refused: filters fail closed.
    """

    text: str
    title: str | None = None
    time: str | None = None
    time_format: Literal["iso", "epoch", "epoch_ms"] = "iso"
    uri: str | None = None
    tags: str | None = None
    tenant: str | None = None
    session: str | None = None
    user: str | None = None
    agent: str | None = None
    run: str | None = None
    kind: str | None = None
    speaker: str | None = None


class QdrantMapping(_Store):
    """A collection on a Qdrant server. Its dense vectors must come from the service's own embedding model.

    `vector` is the dense vector's name ("" for the unnamed one). `sparse` is a sparse vector encoded as
    qdrant/bm25; without one the collection is no part of the lexical source.
    """

    model_config = ConfigDict(json_schema_extra=_one_of("payload"))
    env_key, roles_in = "api_key_env", "payload"

    url: HttpUrl
    api_key_env: str | None = None
    collection: str = Field(min_length=1)
    vector: str = ""
    sparse: str | None = None
    tenant: str | None = None
    payload: PayloadKeys

    @field_validator("url")
    @classmethod
    def _without_secrets(cls, value: str) -> str:
        parts = urlsplit(value)
        if "@" in parts.netloc or parts.query:
            raise ValueError("leave user, password and query out: the key goes into the variable of `api_key_env`")
        return value


class SparqlMapping(_Store):
    """A graph behind a SPARQL endpoint: things with a label, and their statements.

    `graph` is a named graph, none the default one. Things are found by their labels, and by links to what is named;
    their `text` is what is remembered.
    """

    env_key = "token_env"

    url: HttpUrl
    token_env: str | None = None
    graph: Iri | None = None
    label: Iri = "http://www.w3.org/2000/01/rdf-schema#label"
    text: Iri
    time: Iri | None = None
    tenant: str = Field(min_length=1)


_FILLED = Field(min_length=1)


class TableColumns(_Strict):
    """The roles of a table's columns, as in ORION_TIMELINE_COLUMNS.

    `text` may be several columns, a line each: a list of them, or label: column. `ts` holds times, epoch seconds or
    milliseconds, or either as text. Not named, `id` is id, `ts` is ts, timestamp, created_at or occurred_at, and
    `text` is text, summary or content, the first that there is; every other role is left out.
    """

    tenant: str | None = None
    id: str | None = None
    ts: str | None = None
    text: str | Annotated[tuple[str, ...], _FILLED] | Annotated[dict[str, str], _FILLED] | None = None
    title: str | None = None
    session_id: str | None = None
    node_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    kind: str | None = None
    speaker: str | None = None
    uri: str | None = None
    tags: str | None = None
    search: str | None = None

    @property
    def named(self) -> Mapping[str, str | Sequence[str] | Mapping[str, str]]:
        return self.model_dump(exclude_none=True)


class TableMapping(_Store):
    """A table or view for the timeline. Without `dsn_env` it lies in the service's own Postgres."""

    model_config = ConfigDict(json_schema_extra=_one_of("columns"))
    env_key, roles_in = "dsn_env", "columns"

    dsn_env: str | None = None
    table: str = Field(min_length=1)
    columns: TableColumns = TableColumns()
    tenant: str | None = None


class Mappings(_Strict):
    """All external stores, in the order of the file."""

    qdrant: tuple[QdrantMapping, ...] = ()
    sparql: tuple[SparqlMapping, ...] = ()
    tables: tuple[TableMapping, ...] = ()

    @property
    def _stores(self) -> Sequence[QdrantMapping | SparqlMapping | TableMapping]:
        return (*self.qdrant, *self.sparql, *self.tables)

    @property
    def tenants(self) -> dict[str, str]:
        """Whose each store is, by its name; without those in which each memory says it."""
        return {one.name: one.tenant for one in self._stores if one.tenant is not None}

    @property
    def names(self) -> list[str]:
        return [one.name for one in self._stores]

    @model_validator(mode="after")
    def _names_differ(self) -> Mappings:
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise ValueError(f"two stores have the name {twice[0]!r}: what is cited under it must be one store")
        return self

    def check_secrets(self) -> None:
        """SettingsError for the first secret that a store names and the environment does not hold."""
        for one in self._stores:
            _ = one.secret


def load_mappings(path: Path | None) -> Mappings:
    """The mappings of the file; none without one. SettingsError with file, line and key for what is wrong."""
    if path is None:
        return Mappings()
    try:
        content = path.read_bytes()[: _MAX_BYTES + 1]
        if len(content) > _MAX_BYTES:
            raise SettingsError(f"ORION_MAPPINGS: {path} is larger than {_MAX_BYTES // 1024} KB")
        root = cast(Any, yaml).compose(content, Loader=yaml.SafeLoader)
        values = yaml.safe_load(content)
    except OSError as error:
        raise SettingsError(f"ORION_MAPPINGS: {path} cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise SettingsError(f"{place}: is not YAML: {getattr(error, 'problem', None) or error}") from error
    try:
        return Mappings.model_validate(values if values is not None else {})
    except ValidationError as error:
        found = error.errors(include_url=False)
        problems = [(problem["loc"], problem["msg"].removeprefix("Value error, ")) for problem in found]
        lines = [f"{path}:{_line(root, loc)}: `{'.'.join(map(str, loc))}`: {told}" for loc, told in problems]
        raise SettingsError("\n".join(lines)) from error


def _line(node: Any, loc: Sequence[int | str]) -> int:
    """The line of a key or an item, or of the nearest one around it that is there."""
    line = node.start_mark.line if node is not None else 0
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
            found = [pair for pair in pairs if pair[0].value == str(part)]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            found = [(one, one) for one in cast("list[yaml.Node]", node.value)[part : part + 1]]
        else:
            break
        if not found:
            break
        line, node = found[0][0].start_mark.line, found[0][1]
    return line + 1
