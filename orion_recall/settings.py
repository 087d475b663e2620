"""Where things are and how much of them may be used: everything here comes from the environment.

How to recall is not here: that is a profile (YAML). Every variable begins with `ORION_`. An address that is
not set means the embedded engine (`up`, `demo`) or, for Postgres under `worker`, no Postgres.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from orion_recall.contracts import DECISION_KIND, QUERY_KIND, REPLY_KIND, STORE_KIND, describe
from orion_recall.errors import SettingsError

RECALL_GROUP = "orion-recall"
DECISIONS_GROUP = "orion-recall-decisions"

_COLUMNS = (
    "tenant", "id", "ts", "text", "title", "session_id", "node_id", "user_id", "kind", "speaker", "uri",
    "tags", "search",
)  # fmt: skip
CommaList = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    """One worker's surroundings. Built by `Settings.read()`, which turns mistakes into `SettingsError`."""

    model_config = SettingsConfigDict(env_prefix="ORION_", frozen=True, extra="ignore")

    redis_url: SecretStr | None = Field(default=None, description="bus: redis://, rediss:// or unix://")
    postgres_dsn: SecretStr | None = Field(default=None, description="record, timeline and decision log")
    analyst_dsn: SecretStr | None = Field(
        default=None, description="what `decisions sql` uses: a login that is orion_analyst and no more"
    )
    data_dir: Path = Field(default=Path(".orion"), description="embedded engines, index and graph")
    prefix: str = Field(default="", description="put before every stream, key and reply address")

    tenants: CommaList = Field(default=("default",), description="tenants served; * serves all")
    default_tenant: str = Field(default="default", min_length=1, description="of a query that names none")
    default_profile: str = Field(default="reflect.v1", description="of a query that names none")
    profiles_dir: Path | None = Field(default=None, description="profile YAML; default: the shipped ones")

    concurrency: int = Field(default=10, ge=1, le=256, description="recalls at once")
    deadline_ms: int = Field(default=2000, ge=10, description="longest a recall may take")
    claim_idle_ms: int = Field(default=5000, ge=100, description="idle time after which another worker claims")
    refresh_ms: int = Field(default=1000, ge=20, description="how often a worker refreshes what it holds")
    max_deliveries: int = Field(default=5, ge=1, description="deliveries after which an entry is poison")
    max_message_bytes: int = Field(default=8_388_608, ge=1024, description="larger messages are invalid")

    reply_streams: CommaList = Field(default=(REPLY_KIND, f"{REPLY_KIND}:*"), description="allowed streams")
    reply_channels: CommaList = Field(
        default=("orion-exec:result:*", "orion:exec:result:*"), description="allowed pub/sub channels"
    )
    reply_maxlen: int = Field(default=10_000, ge=1, description="entries kept on a reply stream")
    reply_ttl_s: int = Field(default=600, ge=1, description="life of a caller's reply stream, and of an entry")
    decisions_cap: int = Field(default=1_000_000, ge=100, description="decisions kept while no sink reads")
    decisions_keep_s: int = Field(default=3600, ge=0, description="how long persisted decisions stay on the bus")

    timeline_table: str = Field(default="collapse_mirror", description="table or view, may be schema.name")
    timeline_columns: Annotated[Mapping[str, str], NoDecode] = Field(
        default_factory=dict[str, str],
        description="role=column,…; a role is left out by an empty column; default: every role by its own name",
    )
    timeline_tenant: str | None = Field(
        default=None, description="the tenant that a table without a tenant column belongs to"
    )
    model_path: Path | None = Field(default=None, description="folder of ONNX embedding weights")

    node: str = Field(
        default_factory=socket.gethostname, description="this machine, in envelopes; default: the host's name"
    )
    instance: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        description="this worker: its consumer name on the bus; default: host and process id",
    )
    content_capture: bool = Field(default=False, description="let query and memory text into logs")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )

    @field_validator("tenants", "reply_streams", "reply_channels", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("tenants")
    @classmethod
    def _somebody(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("name at least one tenant, or * for all")
        return value

    @field_validator("redis_url")
    @classmethod
    def _bus(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("write redis://host:6379/0, rediss://… or unix:///path/to/socket")
        return value

    @field_validator("timeline_columns", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        columns = {role.strip(): column.strip() for role, _, column in pairs}
        for role in columns:
            if role not in _COLUMNS:
                raise ValueError(f"{role!r} is not a role; roles are {', '.join(_COLUMNS)}")
        return columns

    @classmethod
    def read(cls, **changes: Any) -> Settings:
        """The settings of this process; `changes` win over the environment."""
        try:
            return cls(**changes)
        except ValidationError as error:
            names = ", ".join(f"ORION_{problem['loc'][0]}".upper() for problem in error.errors() if problem["loc"])
            # Without the values: an address may hold a password.
            raise SettingsError(f"{names}: {describe(error, with_values=False)}") from error

    def changed(self, **changes: Any) -> Settings:
        """The same settings with some values replaced."""
        return self.model_copy(update=changes)

    @property
    def bus_url(self) -> str | None:
        """The bus address, secrets included: never log it."""
        return self.redis_url.get_secret_value() if self.redis_url else None

    @property
    def dsn(self) -> str | None:
        """The Postgres address, secrets included: never log it."""
        return self.postgres_dsn.get_secret_value() if self.postgres_dsn else None

    def serves(self, tenant: str) -> bool:
        """Whether this worker may answer for the tenant."""
        return "*" in self.tenants or tenant in self.tenants

    @property
    def query_stream(self) -> str:
        """The intake of queries."""
        return self.prefix + QUERY_KIND

    @property
    def reply_stream(self) -> str:
        """The shared reply stream."""
        return self.prefix + REPLY_KIND

    @property
    def decision_stream(self) -> str:
        """The decisions on the bus."""
        return self.prefix + DECISION_KIND

    @property
    def store_stream(self) -> str:
        """The intake of memories."""
        return self.prefix + STORE_KIND

    @property
    def dead_stream(self) -> str:
        """Queries that could not be read or that killed their workers."""
        return f"{self.query_stream}:dead"

    @property
    def store_dead_stream(self) -> str:
        """Store messages that could not be read."""
        return f"{self.store_stream}:dead"
