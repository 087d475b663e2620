"""Types of settings: how lists, addresses and column mappings are read from the environment.

A value that cannot be used raises a ValueError that says what to write instead, and quotes no address: it may hold
a password.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode, PydanticBaseSettingsSource

from orion_recall.text.keyword_weights import KeywordWeights, keyword_weights_of
from orion_recall.text.redaction import check_rules
from orion_recall.values import SourceName

LaneUse = Literal["ignore", "tag", "scope"]

# After the name of a secret setting: the file that holds its value.
FILE_SUFFIX = "_FILE"

BUS_SCHEMES = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")

TIMELINE_ROLES = (
    "tenant", "id", "ts", "text", "title", "session_id", "node_id", "user_id", "agent_id", "run_id", "kind",
    "speaker", "uri", "tags", "search",
)  # fmt: skip


def _split(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value  # LOG_LEVEL=INFO is what most programs take


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


def _address(example: str, secret: str, *, with_query: bool = False) -> Callable[[str | None], str | None]:
    """The check of an http address that holds no secret: `secret` says where that belongs."""

    def check(value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if "@" in parts.netloc or (parts.query and not with_query):
            raise ValueError(f"leave user, password and query out: {secret}")
        if not _is_http(parts) or parts.fragment:
            raise ValueError(f"write {example}")
        return value.rstrip("/")

    return check


def _is_http(parts: SplitResult) -> bool:
    try:
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number; it may be somebody's password
        return False


LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]
CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Tenants = Annotated[CommaList, AfterValidator(_tenants)]
MemoryKinds = Annotated[CommaList, AfterValidator(_memory_kinds)]
RedactionRules = Annotated[CommaList, AfterValidator(check_rules)]
SourceNames = Annotated[tuple[SourceName, ...] | None, NoDecode, BeforeValidator(_split)]
Columns = Annotated[Mapping[str, str], NoDecode, BeforeValidator(_columns)]
KeywordSetting = Annotated[KeywordWeights, NoDecode, BeforeValidator(keyword_weights_of)]
BusUrl = Annotated[SecretStr | None, AfterValidator(_bus)]
QdrantUrl = Annotated[
    str | None,
    AfterValidator(_address("http://host:6333 or https://host:6333", "the key goes into ORION_QDRANT_API_KEY")),
]
SparqlUrl = Annotated[
    str | None,
    AfterValidator(
        _address(
            "http://host:7878/query or https://…",
            "user and password belong in ORION_SPARQL_USER and ORION_SPARQL_PASSWORD",
            with_query=True,
        )
    ),
]
TeiUrl = Annotated[
    str | None,
    AfterValidator(_address("http://host:port or https://host:port", "the key belongs in ORION_TEI_API_KEY")),
]
LlmUrl = Annotated[
    str | None,
    AfterValidator(_address("http://host:port/v1 or https://host/v1", "the key goes into ORION_LLM_API_KEY")),
    AfterValidator(lambda value: value and value.removesuffix("/chat/completions")),
]


class SecretFiles(PydanticBaseSettingsSource):
    """Values of secret settings that are given as files: ORION_NAME_FILE is the path, the file's text the value.

    One line end after it is left out. ValueError, which names the variables, for a file that cannot be read or is
    empty, and where ORION_NAME is set as well.
    """

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """What the file holds; None where none is named."""
        if not is_secret(field):
            return None, field_name, False
        environment = {name.upper(): value for name, value in os.environ.items()}
        name = f"ORION_{field_name}".upper()
        path = environment.get(f"{name}{FILE_SUFFIX}", "")
        if not path:
            return None, field_name, False
        if environment.get(name):
            raise ValueError(f"{name} and {name}{FILE_SUFFIX} are both set: leave one of them out")
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror or error) if isinstance(error, OSError) else "it is no text"
            raise ValueError(f"{name}{FILE_SUFFIX}: {path} cannot be read: {why}") from error
        value = text.removesuffix("\n").removesuffix("\r")
        if not value:
            raise ValueError(f"{name}{FILE_SUFFIX}: {path} is empty")
        return value, field_name, False

    def __call__(self) -> dict[str, Any]:
        """The values by the settings' names."""
        found = {
            name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in found.items() if value is not None}


def is_secret(field: FieldInfo) -> bool:
    """Whether a setting is, or may hold, a secret."""
    return SecretStr in {field.annotation, *getattr(field.annotation, "__args__", ())}
