"""Settings: addresses, limits and identities of one worker, read from the environment.

How to recall is not here: that is a profile (YAML). Every variable begins with `ORION_`. An address that is
not set means the embedded engine (`up`, `demo`) or, for Postgres under `worker`, no Postgres.

A value that cannot be used raises a ValueError that says what to write instead, and quotes no address: it may hold
a password.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

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
from orion_recall.packages import offered
from orion_recall.postgres.address import DEFAULT_SCHEMA, with_schema
from orion_recall.source_specs import source_names
from orion_recall.text.keyword_weights import SHIPPED, KeywordWeights, keyword_weights_of
from orion_recall.text.redaction import check_rules
from orion_recall.values import SourceName

T = TypeVar("T")

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


def _setting(default: T, description: str, **bounds: Any) -> T:
    """A setting with its default; `bounds` are those of a pydantic `Field`."""
    return Field(default=default, description=description, **bounds)


class Settings(BaseSettings):
    """The settings of one worker. `Settings.read()` makes them, and turns mistakes into `SettingsError`."""

    model_config = SettingsConfigDict(env_prefix="ORION_", frozen=True, extra="ignore")

    redis_url: BusUrl = _setting(None, "bus: redis://, rediss://, unix://, redis+sentinel:// or rediss+sentinel://")
    postgres_dsn: SecretStr | None = _setting(None, "record, timeline and decision log")
    postgres_schema: str = _setting(
        DEFAULT_SCHEMA,
        "schema that our tables are in; made when it is absent",
        pattern=r"^[a-z_][a-z0-9_]*$",
        max_length=63,
    )
    analyst_dsn: SecretStr | None = _setting(
        None, "what `decisions sql` uses: a login that is orion_analyst and no more"
    )
    qdrant_url: QdrantUrl = _setting(None, "index: http:// or https://; the port is 6333 by default")
    qdrant_api_key: SecretStr | None = _setting(None, "of the Qdrant server; it must be able to write")
    qdrant_collection: str = _setting(
        "orion-recall", "made when it is absent", pattern=r"^[\w.-]*\w[\w.-]*$", max_length=255
    )
    data_dir: Path = _setting(Path(".orion"), "embedded engines, index and graph")
    min_free_bytes: int = _setting(
        256 << 20,
        "free bytes on the disks of ORION_DATA_DIR below which index and graph are not written; "
        "below half of it the embedded bus refuses callers, below a quarter the embedded Postgres writes; 0: any",
        ge=0,
    )
    bus_memory_bytes: int = _setting(
        1 << 30, "memory of the embedded bus; when it is full it refuses callers; 0: no limit", ge=0
    )
    prefix: str = _setting("", "put before every stream, key and reply address")

    tenants: Tenants = _setting(("default",), "tenants served; * serves all")
    default_tenant: str = _setting("default", "of a query that names none", min_length=1)
    default_profile: str = _setting("reflect.v1", "of a query that names none")
    profiles_dir: Path | None = _setting(None, "profile YAML; default: the shipped ones")

    concurrency: int = _setting(10, "recalls at once", ge=1, le=256)
    max_waiting: int = _setting(
        1000,
        "queries that may wait in a worker, taken from tenants in turn; what cannot be answered in its "
        "ttl, or is beyond this number, is refused at once; 0: they wait on the bus",
        ge=0,
        le=100_000,
    )
    shadows_at_once: int = _setting(
        2, "recalls by shadow profiles at once, after the replies; 0: none", ge=0, le=64
    )
    deadline_ms: int = _setting(2000, "longest a recall may take", ge=10)
    claim_idle_ms: int = _setting(
        5000, "idle time after which another worker claims; of decisions six times that", ge=100
    )
    refresh_ms: int = _setting(1000, "how often a worker refreshes what it holds", ge=20)
    max_deliveries: int = _setting(5, "deliveries after which an entry is poison", ge=1)
    max_query_bytes: int = _setting(
        262_144, "a larger query is invalid, as is one of more values (items, fields) than a 160th of this", ge=1024
    )
    max_message_bytes: int = _setting(
        8_388_608, "the same of messages that store or change memories, and of feedback", ge=1024
    )
    clock_bound_ms: int = _setting(
        1000, "difference between this machine's clock and the bus's that doctor warns of", ge=1
    )
    query_lane: LaneUse = _setting(
        "ignore", "a query's lane: ignore, tag (only memories with that tag) or scope (session or user)"
    )

    keys_file: Path | None = _setting(
        None, "ring of the callers' keys (`orion-recall keys`): with it only signed messages are served"
    )
    signed_within_s: int = _setting(
        300, "how old a signature may be when its message is first read, by the clock of the bus", ge=1, le=604_800
    )
    key: Path | None = _setting(
        None, "file of the key that commands and `RecallClient` sign with; default: unsigned"
    )

    query_channels: CommaList = _setting(
        (QUERY_KIND, "orion:exec:request:RecallService"),
        "pub/sub channels on which queries are heard as well; empty: none",
    )
    decision_channels: CommaList = _setting(
        (), "pub/sub channels on which decisions are published, too, with their V1 fields"
    )
    reply_streams: CommaList = _setting((REPLY_KIND, f"{REPLY_KIND}:*"), "allowed streams")
    reply_channels: CommaList = _setting(
        ("orion-exec:result:*", "orion:exec:result:*", "orion:orch:result:*"), "allowed pub/sub channels"
    )
    reply_maxlen: int = _setting(10_000, "entries kept on a reply stream", ge=1)
    reply_ttl_s: int = _setting(600, "life of a caller's reply stream, and of an entry", ge=1)
    reply_bytes: int = _setting(64 << 20, "bytes kept on a reply stream; beyond, the oldest replies go", ge=1 << 20)
    dead_letters_cap: int = _setting(10_000, "dead letters kept of each stream", ge=1)
    dead_letters_bytes: int = _setting(
        32 << 20, "bytes of dead letters kept of each stream; beyond, the oldest go", ge=1 << 20
    )
    decisions_cap: int = _setting(1_000_000, "decisions kept while no sink reads", ge=100)
    decisions_bytes: int = _setting(
        512 << 20, "bytes of decisions kept on the bus; beyond, the oldest go", ge=1 << 20
    )
    decisions_keep_s: int = _setting(3600, "how long persisted decisions stay on the bus", ge=0)

    memory_kinds: MemoryKinds = _setting((), f"kinds of memories beside {', '.join(MEMORY_KINDS)}")
    where_cap: int = _setting(1000, "memories that one update or delete by query may change at most", ge=1)
    acknowledge_ms: int = _setting(
        2000, "how long a receipt waits for index and graph everywhere, where its message does not say", ge=0
    )

    decisions_retention_days: int | None = _setting(
        None, "age in days after which decisions are deleted; default: kept", ge=1, le=36_500
    )
    retention: Path | None = _setting(
        None, "YAML file: days that decisions, requests and dead letters are kept, by tenant"
    )
    query_text: Literal["full", "hash", "none"] = _setting(
        "full", "what decisions keep of a query's text: full, hash or none"
    )
    redact: RedactionRules = _setting((), "place:kind,… to redact, as store:key,log:all")
    query_hash_key: SecretStr | None = _setting(
        None, "secret that keys the hash of a query's text; the same for all workers"
    )

    timeline_table: str = _setting(
        "collapse_mirror",
        "table or view, may be schema.name; rows of another than the own view are cited as table:id",
    )
    timeline_columns: Columns = Field(
        default_factory=dict[str, str],
        description="role=column,…; text=a+b joins columns; a role is left out by an empty column; "
        "default: every role by its own name, where there is such a column",
    )
    timeline_tenant: str | None = _setting(None, "the tenant that a table without a tenant column belongs to")
    mappings: Path | None = _setting(None, "YAML file that maps stores of others")
    sparql_url: SparqlUrl = _setting(None, "graph: the query address of a SPARQL 1.1 server")
    sparql_update_url: SparqlUrl = _setting(
        None, "its update address; default: the query address, /query made /update"
    )
    sparql_user: str | None = _setting(None, "of the SPARQL server, with a password")
    sparql_password: SecretStr | None = _setting(None, "of the SPARQL server's user")
    sparql_token: SecretStr | None = _setting(None, "bearer token for the SPARQL server")

    model_path: Path | None = _setting(None, "folder of ONNX embedding weights")

    embedder: Literal["onnx", "transformers", "tei"] = _setting(
        "onnx", "what embeds: onnx (the default model), transformers or tei (a server)"
    )
    embedding_precision: Literal["int8", "fp32"] = _setting(
        "int8", "of the default model on onnx: int8, or fp32 as it was published"
    )
    token_vectors: bool = _setting(
        True,
        "whether a new index holds the vectors of single tokens, which `ranking.late` compares (6 kB a "
        "memory of 33 tokens)",
    )
    keyword_weights: KeywordSetting = _setting(SHIPPED, "BM25 of the index: k1=1.5,b=0.75,length=32")
    model: str | None = _setting(None, "of transformers: a model's name, or its folder")
    tei_url: TeiUrl = _setting(None, "of tei: the embedding server, http:// or https://")
    tei_api_key: SecretStr | None = _setting(None, "what both TEI servers ask for, if anything")
    reranker: Literal["none", "transformers", "tei"] = _setting(
        "none", "what reranks where a profile wants it: none, transformers or tei (a server)"
    )
    reranker_model: str | None = _setting(
        None, "of the transformers reranker: a cross-encoder's name, or its folder"
    )
    reranker_url: TeiUrl = _setting(None, "of the tei reranker: its server, for a TEI server has one model")
    extractor: ExtractorName = _setting(
        "light", "what finds names and statements: light (rules), spacy, llm (a server), or one of a package"
    )
    spacy_model: str = _setting(
        "en_core_web_sm", "of spacy: an installed pipeline's name, or its folder", min_length=1
    )
    llm_url: LlmUrl = _setting(None, "of llm: an OpenAI-compatible address, what stands before /chat/completions")
    llm_model: str | None = _setting(None, "of llm: the model's name, as its server knows it")
    llm_api_key: SecretStr | None = _setting(None, "what the llm's server asks for, if anything")
    llm_timeout_s: float = _setting(30.0, "longest wait for one answer of the llm", gt=0, le=600)
    llm_concurrency: int = _setting(4, "memories a worker asks the llm about at once", ge=1, le=64)
    health_port: Annotated[int | None, Field(ge=0, le=65535)] = _setting(
        None, "port of /live, /ready and /metrics; 0 takes a free one"
    )
    health_host: str = _setting("127.0.0.1", "address that port listens on", min_length=1)
    ready_sources: SourceNames = _setting(
        None,
        "sources that must answer for /ready, as vector,rdf; empty: none; default: those of the default profile",
    )
    look_every_s: float = _setting(
        10.0, "seconds between looks at the sources, for `status`; 0: never", ge=0, le=3600
    )

    console_host: str = _setting("127.0.0.1", "address of the console", min_length=1)
    console_port: Annotated[int, Field(ge=0, le=65535)] = _setting(8642, "port of the console; 0 takes a free one")
    console_tokens: Path | None = _setting(
        None, "TOML file of the console's tokens; without it only loopback is listened on"
    )
    console_names: CommaList = _setting((), "further host names under which browsers reach the console")
    console_saves_profiles: bool = _setting(False, "whether the console may write the files of ORION_PROFILES_DIR")

    node: str = Field(
        default_factory=socket.gethostname, description="this machine, in envelopes; default: the host's name"
    )
    instance: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        description="this worker: its consumer name on the bus; default: host and process id",
    )
    content_capture: bool = _setting(False, "let query and memory text into logs and spans")
    log_level: LogLevel = _setting("info", "debug, info, warning or error")

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
