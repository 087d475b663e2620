"""Types of settings: how lists, addresses and column mappings are read from the environment.

A value that cannot be used raises a ValueError that says what to write instead, and quotes no address: it may hold
a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic_settings import NoDecode

from orion_recall.values import SourceName

BUS_SCHEMES = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")

TIMELINE_ROLES = (
    "tenant", "id", "ts", "text", "title", "session_id", "node_id", "user_id", "kind", "speaker", "uri",
    "tags", "search",
)  # fmt: skip


def _split(value: Any) -> Any:
    """A text split at its commas; anything else as it is."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _tenants(tenants: tuple[str, ...]) -> tuple[str, ...]:
    if not tenants:
        raise ValueError("name at least one tenant, or * for all")
    return tenants


def _memory_kinds(kinds: tuple[str, ...]) -> tuple[str, ...]:
    if any(len(kind) > 64 for kind in kinds):
        raise ValueError("a kind has 64 characters at most")
    return kinds


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


def _qdrant(value: str | None) -> str | None:
    if value is None:
        return None
    parts = urlsplit(value)
    if not _is_http(parts):
        raise ValueError("write http://host:6333 or https://host:6333")
    if parts.username or parts.password or parts.query:
        raise ValueError("leave user, password and query out: the key goes into ORION_QDRANT_API_KEY")
    return value


def _sparql(value: str | None) -> str | None:
    if value is None:
        return None
    parts = urlsplit(value)
    if "@" in parts.netloc:
        raise ValueError("user and password belong in ORION_SPARQL_USER and ORION_SPARQL_PASSWORD")
    if not _is_http(parts) or parts.fragment:
        raise ValueError("write http://host:7878/query or https://…")
    return value


def _tei(value: str | None) -> str | None:
    """The address of a TEI server, without a slash at the end."""
    if value is None:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write http://host:port or https://host:port")
    if parts.username or parts.password or parts.query:
        raise ValueError("write it without user and query: the key belongs in ORION_TEI_API_KEY")
    return value.rstrip("/")


def _llm(value: str | None) -> str | None:
    """The address of an OpenAI-compatible server: what stands before /chat/completions."""
    if value is None:
        return None
    parts = urlsplit(value)
    if not _is_http(parts):
        raise ValueError("write http://host:port/v1 or https://host/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("leave user, password and query out: the key goes into ORION_LLM_API_KEY")
    return value.rstrip("/").removesuffix("/chat/completions")


def _is_http(parts: SplitResult) -> bool:
    try:
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number; it may be somebody's password
        return False


CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Tenants = Annotated[CommaList, AfterValidator(_tenants)]
MemoryKinds = Annotated[CommaList, AfterValidator(_memory_kinds)]
SourceNames = Annotated[tuple[SourceName, ...] | None, NoDecode, BeforeValidator(_split)]
Columns = Annotated[Mapping[str, str], NoDecode, BeforeValidator(_columns)]
BusUrl = Annotated[SecretStr | None, AfterValidator(_bus)]
QdrantUrl = Annotated[str | None, AfterValidator(_qdrant)]
SparqlUrl = Annotated[str | None, AfterValidator(_sparql)]
TeiUrl = Annotated[str | None, AfterValidator(_tei)]
LlmUrl = Annotated[str | None, AfterValidator(_llm)]
