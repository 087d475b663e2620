"""Settings: addresses, limits and identities of one worker, read from the environment.

How to recall is not here: that is a profile (YAML). Every variable begins with `ORION_`. An address that is
not set means the embedded engine (`up`, `demo`) or, for Postgres under `worker`, no Postgres.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from orion_recall.contracts import (
    DECISION_KIND,
    DELETE_KIND,
    FEEDBACK_KIND,
    QUERY_KIND,
    REPLY_KIND,
    STORE_KIND,
    UPDATE_KIND,
    describe,
)
from orion_recall.contracts.fields import MEMORY_KINDS
from orion_recall.errors import InvalidMessage, SettingsError
from orion_recall.postgres.address import DEFAULT_SCHEMA, with_schema
from orion_recall.setting_values import (
    BusUrl,
    Columns,
    CommaList,
    ExtractorName,
    KeywordSetting,
    LaneUse,
    LlmUrl,
    LogLevel,
    MemoryKinds,
    QdrantUrl,
    RedactionRules,
    SourceNames,
    SparqlUrl,
    TeiUrl,
    Tenants,
    secrets_in_files,
)
from orion_recall.text.keyword_weights import SHIPPED

RECALL_GROUP = "orion-recall"
DECISIONS_GROUP = "orion-recall-decisions"
_INTAKE = {
    "queries": QUERY_KIND,
    "stores": STORE_KIND,
    "updates": UPDATE_KIND,
    "deletes": DELETE_KIND,
    "feedback": FEEDBACK_KIND,
}

_FORMER = {
    "ORION_SUCCESSIONS": "successions are not recognised, only stated ones count; the profile's `superseded` says "
    "what becomes of the older memory. Unset it",
    "ORION_INDEX_PROCESS": "the embedded index is in the worker's process; more workers use more processors "
    "(`orion-recall up --workers N`). Unset it",
    "ORION_LOG_FILE": "the log goes to standard error: send that to a file (2>> worker.log), which logrotate can "
    "rotate. Unset it",
}
"""Settings that an earlier version had, and what took their place."""


class Settings(BaseSettings):
    """The settings of one worker. `Settings.read()` makes them, and turns mistakes into `SettingsError`."""

    model_config = SettingsConfigDict(env_prefix="ORION_", frozen=True, extra="ignore")

    redis_url: BusUrl = Field(
        default=None, description="bus: redis://, rediss://, unix://, redis+sentinel:// or rediss+sentinel://"
    )
    postgres_dsn: SecretStr | None = Field(default=None, description="record, timeline and decision log")
    postgres_schema: str = Field(
        default=DEFAULT_SCHEMA,
        pattern=r"^[a-z_][a-z0-9_]*$",
        max_length=63,
        description="schema that our tables are in; made when it is absent",
    )
    analyst_dsn: SecretStr | None = Field(
        default=None, description="what `decisions sql` uses: a login that is orion_analyst and no more"
    )
    qdrant_url: QdrantUrl = Field(
        default=None, description="index: http:// or https://; the port is 6333 by default"
    )
    qdrant_api_key: SecretStr | None = Field(
        default=None, description="of the Qdrant server; it must be able to write"
    )
    qdrant_collection: str = Field(
        default="orion-recall", pattern=r"^[\w.-]*\w[\w.-]*$", max_length=255, description="made when it is absent"
    )
    data_dir: Path = Field(default=Path(".orion"), description="embedded engines, index and graph")
    min_free_bytes: int = Field(
        default=256 << 20,
        ge=0,
        description="free bytes on the disks of ORION_DATA_DIR below which index and graph are not written; "
        "below half of it the embedded bus refuses callers, below a quarter the embedded Postgres writes; 0: any",
    )
    bus_memory_bytes: int = Field(
        default=1 << 30,
        ge=0,
        description="memory of the embedded bus; when it is full it refuses callers; 0: no limit",
    )
    prefix: str = Field(default="", description="put before every stream, key and reply address")

    tenants: Tenants = Field(default=("default",), description="tenants served; * serves all")
    default_tenant: str = Field(default="default", min_length=1, description="of a query that names none")
    default_profile: str = Field(default="reflect.v1", description="of a query that names none")
    profiles_dir: Path | None = Field(default=None, description="profile YAML; default: the shipped ones")

    concurrency: int = Field(default=10, ge=1, le=256, description="recalls at once")
    max_waiting: int = Field(
        default=1000,
        ge=0,
        le=100_000,
        description="queries that may wait in a worker, taken from tenants in turn; what cannot be answered in its "
        "ttl, or is beyond this number, is refused at once; 0: they wait on the bus",
    )
    shadows_at_once: int = Field(
        default=2, ge=0, le=64, description="recalls by shadow profiles at once, after the replies; 0: none"
    )
    deadline_ms: int = Field(default=2000, ge=10, description="longest a recall may take")
    claim_idle_ms: int = Field(
        default=5000, ge=100, description="idle time after which another worker claims; of decisions six times that"
    )
    refresh_ms: int = Field(default=1000, ge=20, description="how often a worker refreshes what it holds")
    max_deliveries: int = Field(default=5, ge=1, description="deliveries after which an entry is poison")
    max_query_bytes: int = Field(
        default=262_144,
        ge=1024,
        description="a larger query is invalid, as is one of more values (items, fields) than a 160th of this",
    )
    max_message_bytes: int = Field(
        default=8_388_608,
        ge=1024,
        description="the same of messages that store or change memories, and of feedback",
    )
    clock_bound_ms: int = Field(
        default=1000, ge=1, description="difference between this machine's clock and the bus's that doctor warns of"
    )
    query_lane: LaneUse = Field(
        default="ignore",
        description="a query's lane: ignore, tag (only memories with that tag) or scope (session or user)",
    )

    keys_file: Path | None = Field(
        default=None,
        description="ring of the callers' keys (`orion-recall keys`): with it only signed messages are served",
    )
    signed_within_s: int = Field(
        default=300,
        ge=1,
        le=604_800,
        description="how old a signature may be when its message is first read, by the clock of the bus",
    )
    key: Path | None = Field(
        default=None, description="file of the key that commands and `RecallClient` sign with; default: unsigned"
    )

    query_channels: CommaList = Field(
        default=(QUERY_KIND, "orion:exec:request:RecallService"),
        description="pub/sub channels on which queries are heard as well; empty: none",
    )
    decision_channels: CommaList = Field(
        default=(), description="pub/sub channels on which decisions are published, too, with their V1 fields"
    )
    reply_streams: CommaList = Field(default=(REPLY_KIND, f"{REPLY_KIND}:*"), description="allowed streams")
    reply_channels: CommaList = Field(
        default=("orion-exec:result:*", "orion:exec:result:*", "orion:orch:result:*"),
        description="allowed pub/sub channels",
    )
    reply_maxlen: int = Field(default=10_000, ge=1, description="entries kept on a reply stream")
    reply_ttl_s: int = Field(default=600, ge=1, description="life of a caller's reply stream, and of an entry")
    reply_bytes: int = Field(
        default=64 << 20, ge=1 << 20, description="bytes kept on a reply stream; beyond, the oldest replies go"
    )
    dead_letters_cap: int = Field(default=10_000, ge=1, description="dead letters kept of each stream")
    dead_letters_bytes: int = Field(
        default=32 << 20, ge=1 << 20, description="bytes of dead letters kept of each stream; beyond, the oldest go"
    )
    decisions_cap: int = Field(default=1_000_000, ge=100, description="decisions kept while no sink reads")
    decisions_bytes: int = Field(
        default=512 << 20, ge=1 << 20, description="bytes of decisions kept on the bus; beyond, the oldest go"
    )
    decisions_keep_s: int = Field(default=3600, ge=0, description="how long persisted decisions stay on the bus")

    memory_kinds: MemoryKinds = Field(default=(), description=f"kinds of memories beside {', '.join(MEMORY_KINDS)}")
    where_cap: int = Field(
        default=1000, ge=1, description="memories that one update or delete by query may change at most"
    )
    acknowledge_ms: int = Field(
        default=2000, ge=0, description="how long a receipt of a change waits for index and graph everywhere"
    )

    decisions_retention_days: int | None = Field(
        default=None, ge=1, le=36_500, description="age in days after which decisions are deleted; default: kept"
    )
    retention: Path | None = Field(
        default=None, description="YAML file: days that decisions, requests and dead letters are kept, by tenant"
    )
    query_text: Literal["full", "hash", "none"] = Field(
        default="full", description="what decisions keep of a query's text: full, hash or none"
    )
    redact: RedactionRules = Field(default=(), description="place:kind,… to redact, as store:key,log:all")
    query_hash_key: SecretStr | None = Field(
        default=None, description="secret that keys the hash of a query's text; the same for all workers"
    )

    timeline_table: str = Field(
        default="collapse_mirror",
        description="table or view, may be schema.name; rows of another than the own view are cited as table:id",
    )
    timeline_columns: Columns = Field(
        default_factory=dict[str, str],
        description="role=column,…; text=a+b joins columns; a role is left out by an empty column; "
        "default: every role by its own name, where there is such a column",
    )
    timeline_tenant: str | None = Field(
        default=None, description="the tenant that a table without a tenant column belongs to"
    )
    mappings: Path | None = Field(default=None, description="YAML file that maps stores of others")
    sparql_url: SparqlUrl = Field(default=None, description="graph: the query address of a SPARQL 1.1 server")
    sparql_update_url: SparqlUrl = Field(
        default=None, description="its update address; default: the query address, /query made /update"
    )
    sparql_user: str | None = Field(default=None, description="of the SPARQL server, with a password")
    sparql_password: SecretStr | None = Field(default=None, description="of the SPARQL server's user")
    sparql_token: SecretStr | None = Field(default=None, description="bearer token for the SPARQL server")

    model_path: Path | None = Field(default=None, description="folder of ONNX embedding weights")

    embedder: Literal["onnx", "transformers", "tei"] = Field(
        default="onnx", description="what embeds: onnx (the default model), transformers or tei (a server)"
    )
    embedding_precision: Literal["int8", "fp32"] = Field(
        default="int8", description="of the default model on onnx: int8, or fp32 as it was published"
    )
    token_vectors: bool = Field(
        default=True,
        description="whether a new index holds the vectors of single tokens, which `ranking.late` compares (6 kB a "
        "memory of 33 tokens)",
    )
    keyword_weights: KeywordSetting = Field(
        default=SHIPPED, description="BM25 of the index: k1=1.5,b=0.75,length=32"
    )
    model: str | None = Field(default=None, description="of transformers: a model's name, or its folder")
    tei_url: TeiUrl = Field(default=None, description="of tei: the embedding server, http:// or https://")
    tei_api_key: SecretStr | None = Field(default=None, description="what both TEI servers ask for, if anything")
    reranker: Literal["none", "transformers", "tei"] = Field(
        default="none", description="what reranks where a profile wants it: none, transformers or tei (a server)"
    )
    reranker_model: str | None = Field(
        default=None, description="of the transformers reranker: a cross-encoder's name, or its folder"
    )
    reranker_url: TeiUrl = Field(
        default=None, description="of the tei reranker: its server, for a TEI server has one model"
    )
    extractor: ExtractorName = Field(
        default="light",
        description="what finds names and statements: light (rules), spacy, llm (a server), or one of a package",
    )
    spacy_model: str = Field(
        default="en_core_web_sm", min_length=1, description="of spacy: an installed pipeline's name, or its folder"
    )
    llm_url: LlmUrl = Field(
        default=None, description="of llm: an OpenAI-compatible address, what stands before /chat/completions"
    )
    llm_model: str | None = Field(default=None, description="of llm: the model's name, as its server knows it")
    llm_api_key: SecretStr | None = Field(default=None, description="what the llm's server asks for, if anything")
    llm_timeout_s: float = Field(default=30.0, gt=0, le=600, description="longest wait for one answer of the llm")
    llm_concurrency: int = Field(default=4, ge=1, le=64, description="memories a worker asks the llm about at once")
    health_port: Annotated[int | None, Field(ge=0, le=65535)] = Field(
        default=None, description="port of /live, /ready and /metrics; 0 takes a free one"
    )
    health_host: str = Field(default="127.0.0.1", min_length=1, description="address that port listens on")
    ready_sources: SourceNames = Field(
        default=None,
        description="sources that must answer for /ready, as vector,rdf; empty: none; "
        "default: those of the default profile",
    )
    look_every_s: float = Field(
        default=10.0, ge=0, le=3600, description="seconds between looks at the sources, for `status`; 0: never"
    )

    console_host: str = Field(default="127.0.0.1", min_length=1, description="address of the console")
    console_port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=8642, description="port of the console; 0 takes a free one"
    )
    console_tokens: Path | None = Field(
        default=None, description="TOML file of the console's tokens; without it only loopback is listened on"
    )
    console_names: CommaList = Field(
        default=(), description="further host names under which browsers reach the console"
    )
    console_saves_profiles: bool = Field(
        default=False, description="whether the console may write the files of ORION_PROFILES_DIR"
    )

    node: str = Field(
        default_factory=socket.gethostname, description="this machine, in envelopes; default: the host's name"
    )
    instance: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        description="this worker: its consumer name on the bus; default: host and process id",
    )
    content_capture: bool = Field(default=False, description="let query and memory text into logs and spans")
    log_level: LogLevel = Field(default="info", description="debug, info, warning or error")

    @field_validator("decision_channels")
    @classmethod
    def _no_circle(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if both := set(value) & set(info.data.get("query_channels", ())):
            raise ValueError(
                f"{', '.join(sorted(both))} is a query channel: each decision would come in as a query"
            )
        return value

    @classmethod
    def read(cls, **changes: Any) -> Settings:
        """The settings of this process; `changes` win over the environment."""
        for name, became in _FORMER.items():
            if name in os.environ:
                raise SettingsError(f"{name} is no setting any more: {became}")
        try:
            return cls(**secrets_in_files(cls.model_fields) | changes)
        except ValidationError as error:
            names = ", ".join(f"ORION_{problem['loc'][0]}".upper() for problem in error.errors() if problem["loc"])
            # Without the values: an address may hold a password.
            raise SettingsError(f"{names}: {describe(error, with_values=False)}") from error
        except ValueError as error:  # of a secret's file
            raise SettingsError(str(error)) from error

    def changed(self, **changes: Any) -> Settings:
        """The same settings with some values replaced."""
        return self.model_copy(update=changes)

    def serves(self, tenant: str) -> bool:
        """Whether this worker may answer for the tenant."""
        return "*" in self.tenants or tenant in self.tenants

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind that a memory may have: the built-in ones and ORION_MEMORY_KINDS."""
        return tuple(dict.fromkeys((*MEMORY_KINDS, *self.memory_kinds)))

    def check_kinds(self, kinds: Iterable[object], where: str) -> None:
        """InvalidMessage for an unknown kind; its text lists the known ones."""
        for kind in kinds:
            if kind not in self.kinds:
                known = f"no kind of memory; there are {', '.join(self.kinds)} (ORION_MEMORY_KINDS adds to them)"
                raise InvalidMessage(f"{where}: {str(kind)[:60]!r} is {known}", without_values=f"{where}: {known}")

    def max_bytes_of(self, kind: str) -> int:
        """The bytes that a message of the kind may have."""
        return self.max_query_bytes if kind == QUERY_KIND else self.max_message_bytes

    @property
    def published_on(self) -> Mapping[str, tuple[str, ...]]:
        """The pub/sub channels of queries and of decisions, with the prefix."""
        named = {"queries": self.query_channels, "decisions": self.decision_channels}
        return {what: tuple(self.prefix + name for name in names) for what, names in named.items()}

    @property
    def query_stream(self) -> str:
        return self.prefix + QUERY_KIND

    @property
    def reply_stream(self) -> str:
        return self.prefix + REPLY_KIND

    @property
    def decision_stream(self) -> str:
        return self.prefix + DECISION_KIND

    @property
    def intake_streams(self) -> Mapping[str, str]:
        """The streams that workers take messages from; beside each its dead letters, under its name and `:dead`."""
        return {what: self.prefix + kind for what, kind in _INTAKE.items()}

    @property
    def tombstone_stream(self) -> str:
        """The stream of tombstones, which tells every worker of memories changed or deleted a moment ago."""
        return f"{self.prefix}memory.tombstone.v1"

    def worker_key(self, instance: str) -> str:
        return f"{self.query_stream}:worker:{instance}"

    # The addresses as they are used, secrets included: never log what these give.

    @property
    def bus_url(self) -> str | None:
        return self.redis_url.get_secret_value() if self.redis_url else None

    @property
    def dsn(self) -> str | None:
        """The Postgres address, with the schema of our tables, secrets included: never log it."""
        address = self.postgres_dsn
        return with_schema(address.get_secret_value(), self.postgres_schema) if address else None

    @property
    def qdrant_key(self) -> str | None:
        """The key of the Qdrant server: never log it."""
        return self.qdrant_api_key.get_secret_value() if self.qdrant_api_key else None
