"""Types of settings: how lists, addresses and column mappings are read from the environment.

A value that cannot be used raises a ValueError that says what to write instead, and quotes no address: it may hold
a password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr, StringConstraints
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_settings import NoDecode

from orion_recall.packages import offered
from orion_recall.source_specs import source_names
from orion_recall.text.keyword_weights import KeywordWeights, keyword_weights_of
from orion_recall.text.redaction import check_rules
from orion_recall.values import SourceName

LaneUse = Literal["ignore", "tag", "scope"]

BUILT_IN_EXTRACTORS = ("light", "spacy", "llm")

# After the name of a secret setting: the file that holds its value.
FILE_SUFFIX = "_FILE"

BUS_SCHEMES = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")

TIMELINE_ROLES = (
    "tenant", "id", "ts", "text", "title", "session_id", "node_id", "user_id", "agent_id", "run_id", "kind",
    "speaker", "uri", "tags", "search",
)  # fmt: skip


def _split(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _tenants(tenants: tuple[str, ...]) -> tuple[str, ...]:
    if not tenants:
        raise ValueError("name at least one tenant, or * for all")
    return tenants


def _columns(value: Any) -> Any:
    """The columns by role, of `role=column,role=column`; anything else as it is."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    by_role = {role.strip(): column.strip() for role, _, column in pairs}
    for role in by_role:
        if role not in TIMELINE_ROLES:
            raise ValueError(f"{role!r} is not a role; roles are {', '.join(TIMELINE_ROLES)}")
    return by_role


def _bus(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not value.get_secret_value().startswith(BUS_SCHEMES):
        raise ValueError(
            "write redis://host:6379/0, rediss://…, unix:///path/to/socket or "
            "redis+sentinel://host:26379,host2:26379/mymaster/0"
        )
    return value


def _http(example: str, secret: str, *, with_query: bool = False) -> AfterValidator:
    """The check of an http address that holds no secret: `secret` says where that belongs."""

    def check(value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if "@" in parts.netloc or (parts.query and not with_query):
            raise ValueError(f"leave user, password and query out: {secret}")
        is_http = parts.scheme in ("http", "https") and parts.hostname and not parts.fragment
        with suppress(ValueError):  # a port that is no number; it may be somebody's password
            if is_http and parts.port != 0:
                return value.rstrip("/")
        raise ValueError(f"write {example}")

    return AfterValidator(check)


def _source(name: str) -> str:
    """Not by a Literal: packages with sources are looked for when one is named, not by every command."""
    if (names := source_names()) and name not in names:
        *first, last = (repr(one) for one in names)
        raise PydanticCustomError(
            "literal_error", "Input should be {names}", {"names": f"{', '.join(first)} or {last}"}
        )
    return name


def known_extractor(name: str) -> str:
    """The name of an extractor that is built in, or that an installed package offers. ValueError for any other."""
    if name in BUILT_IN_EXTRACTORS or name in (further := sorted(offered("orion_recall.extractors"))):
        return name
    known = ", ".join([*BUILT_IN_EXTRACTORS, *further])
    raise ValueError(f"{name!r} is no extractor: there are {known}. Is the package that adds it installed?")


LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(str.lower)]  # many write INFO
CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Tenants = Annotated[CommaList, AfterValidator(_tenants)]
MemoryKinds = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=64)], ...], NoDecode, BeforeValidator(_split)
]
ExtractorName = Annotated[str, AfterValidator(known_extractor)]
RedactionRules = Annotated[CommaList, AfterValidator(check_rules)]
SourceNames = Annotated[
    tuple[Annotated[SourceName, AfterValidator(_source)], ...] | None, NoDecode, BeforeValidator(_split)
]
Columns = Annotated[Mapping[str, str], NoDecode, BeforeValidator(_columns)]
KeywordSetting = Annotated[KeywordWeights, NoDecode, BeforeValidator(keyword_weights_of)]
BusUrl = Annotated[SecretStr | None, AfterValidator(_bus)]
QdrantUrl = Annotated[
    str | None, _http("http://host:6333 or https://host:6333", "the key goes into ORION_QDRANT_API_KEY")
]
SparqlUrl = Annotated[
    str | None,
    _http(
        "http://host:7878/query or https://…",
        "user and password belong in ORION_SPARQL_USER and ORION_SPARQL_PASSWORD",
        with_query=True,
    ),
]
TeiUrl = Annotated[
    str | None, _http("http://host:port or https://host:port", "the key belongs in ORION_TEI_API_KEY")
]
LlmUrl = Annotated[
    str | None,
    _http("http://host:port/v1 or https://host/v1", "the key goes into ORION_LLM_API_KEY"),
    AfterValidator(lambda value: value and value.removesuffix("/chat/completions")),
]


def secrets_in_files(fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
    """Secret settings that are given as files, by name: ORION_NAME_FILE is the path, the file's text the value.

    One line end after it is left out. ValueError, which names the variables, for a file that cannot be read or is
    empty, and where ORION_NAME is set as well.
    """
    environment = {name.upper(): value for name, value in os.environ.items()}
    found: dict[str, str] = {}
    for field in (name for name, field in fields.items() if is_secret(field)):
        name = f"ORION_{field}".upper()
        if not (path := environment.get(f"{name}{FILE_SUFFIX}")):
            continue
        if environment.get(name):
            raise ValueError(f"{name} and {name}{FILE_SUFFIX} are both set: leave one of them out")
        try:
            value = Path(path).read_text("utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror or error) if isinstance(error, OSError) else "it is no text"
            raise ValueError(f"{name}{FILE_SUFFIX}: {path} cannot be read: {why}") from error
        if not value:
            raise ValueError(f"{name}{FILE_SUFFIX}: {path} is empty")
        found[field] = value
    return found


def is_secret(field: FieldInfo) -> bool:
    """Whether a setting is, or may hold, a secret."""
    return SecretStr in {field.annotation, *getattr(field.annotation, "__args__", ())}
