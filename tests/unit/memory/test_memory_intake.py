"""Messages about memories: served once, waiting for the record, stored and patched."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest
from opentelemetry.trace import Tracer

from orion_recall.bus.commit import Commit, Committed
from orion_recall.bus.delivery import Deliveries
from orion_recall.bus.envelope import Received
from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import ErrorInfo, MemoryReceiptV1, MemoryV1, MemoryVerdictV1, RecallReceiptV1
from orion_recall.errors import InvalidMessage, MessageError, OrionError, RecordError, RefusedMessage
from orion_recall.memory.intake import handlers
from orion_recall.memory.intake.consumers import MessageWorker
from orion_recall.memory.intake.handlers import Handler, MessageHandlers, compose_all, read_patch
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import AccessCounts, CopyPosition
from orion_recall.postgres.pool import translate
from orion_recall.settings import Settings
from orion_recall.tasks import cancel
from orion_recall.telemetry import span_of
from orion_recall.values import Memory


class Commits:
    """Takes every commit."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []

    async def commit(self, commit: Commit) -> Committed:
        self.commits.append(commit)
        return "committed"


class Told:
    """Raises what it was given, one error a call; then it has done it."""

    def __init__(self, *errors: OrionError) -> None:
        self.errors, self.left_s = list(errors), list[float]()

    async def receipt(self, received: Received, time_left_s: float) -> RecallReceiptV1:
        self.left_s.append(time_left_s)
        if self.errors:
            raise self.errors.pop(0)
        return RecallReceiptV1(recorded=True)

    def nothing(self, error: ErrorInfo) -> RecallReceiptV1:
        return RecallReceiptV1(recorded=False, error=error)


async def without_sleep(seconds: float, until: asyncio.Event | None) -> None:
    assert seconds > 0


async def served(
    told: Told, *, deliveries: int = 1, tracer: Tracer | None = None, **envelope: Any
) -> tuple[Commit, dict[str, Any], list[str]]:
    """The commit, its payload, and the entries whose delivery count was reset."""
    commits, waited = Commits(), list[str]()

    async def reset_delivery_count(entry_id: str) -> None:
        waited.append(entry_id)

    kind = "memory.delete.v1"
    opened = Deliveries(
        Settings.read(), commits, kind=kind, server_time=lambda: 1003.0, tracer=tracer, span=span_of(kind)
    )
    worker = MessageWorker(
        opened,
        Handler(kind, "recall.receipt.v1", told.receipt, told.nothing),
        reset_delivery_count=reset_delivery_count,
        sleep=without_sleep,
    )
    message: dict[str, Any] = {"kind": "memory.delete.v1", "correlation_id": "c", "payload": dict[str, Any]()}
    message |= envelope
    fields = {b"envelope": json.dumps(message).encode()}
    await worker.serve(Entry(id="1000000-0", fields=fields, deliveries=deliveries))
    (commit,) = commits.commits
    return commit, json.loads(commit.reply)["payload"], waited


def of_the_record(cause: Exception) -> RecordError:
    """What comes of it on its way to the worker."""
    with pytest.raises(RecordError) as caught, translate("keeping feedback"):
        raise cause
    return caught.value


@pytest.mark.parametrize(
    "cause",
    [
        ConnectionRefusedError(111, "Connection refused"),
        TimeoutError(),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        asyncpg.DiskFullError("could not extend file"),
        asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction"),
    ],
    ids=lambda cause: type(cause).__name__,
)
async def test_while_the_record_is_away_it_waits_and_its_deliveries_are_not_counted(cause: Exception) -> None:
    commit, payload, waited = await served(Told(*[of_the_record(cause)] * 20))
    assert (payload, commit.dead_reason) == ({"recorded": True}, "")
    assert waited == ["1000000-0"] * 20


@pytest.mark.parametrize("reply_to", ["my:replies:1", "recall.query.v1", "x" * 600])
async def test_a_refused_reply_address_is_told_in_the_log_where_its_sender_hears_nothing(
    caplog: pytest.LogCaptureFixture, reply_to: str
) -> None:
    commit, payload, _ = await served(Told(), reply_to=reply_to)
    assert commit.address.mode == "shared"
    (record,) = caplog.records
    assert payload["error"]["message"] in record.getMessage()
    assert record.getMessage().startswith(
        "a memory.delete.v1 is refused, and who sent it hears nothing: reply_to '"
    )
    assert "ORION_REPLY_STREAMS" in record.getMessage()


REFUSALS: list[tuple[Exception, str]] = [
    (asyncpg.InsufficientPrivilegeError("permission denied for table memories"), "role its rights"),
    (asyncpg.UndefinedTableError('relation "outbox" does not exist'), "orion-recall migrate"),
    (asyncpg.InvalidPasswordError('password authentication failed for user "w"'), "ORION_POSTGRES_DSN"),
    (asyncpg.UniqueViolationError("Key (id)=(my secret) already exists"), "change what the message holds"),
    (asyncpg.ProgramLimitExceededError("index row size 3000 exceeds 2704"), "change what the message holds"),
    (asyncpg.DataError("invalid input for query argument $1: 'my secret'"), "change what the message holds"),
    (asyncpg.RaiseError("a trigger does not like 'my secret'"), "the log of Postgres"),
]


@pytest.mark.parametrize(("cause", "advice"), REFUSALS, ids=[type(cause).__name__ for cause, _ in REFUSALS])
async def test_what_the_record_refuses_is_tried_once_answered_with_what_to_do_and_set_aside(
    cause: Exception, advice: str
) -> None:
    told = Told(of_the_record(cause), of_the_record(cause))
    commit, payload, waited = await served(told)
    assert (len(told.left_s), waited) == (1, [])
    error = payload["error"]
    assert error["type"] == "failed"
    assert error["message"].startswith("keeping feedback: Postgres")
    assert advice in error["message"]
    assert commit.dead_reason == f"failed: {error['message']}"
    assert "secret" not in commit.reply.decode() + commit.dead_reason


PASSING = [
    asyncpg.SerializationError("could not serialize access"),
    asyncpg.DeadlockDetectedError("deadlock detected"),
    asyncpg.QueryCanceledError("canceling statement due to statement timeout"),
    asyncpg.InvalidCachedStatementError("cached statement plan is invalid"),
]


@pytest.mark.parametrize("cause", PASSING, ids=lambda cause: type(cause).__name__)
async def test_what_another_transaction_was_in_the_way_of_is_tried_again_and_not_for_ever(cause: Exception) -> None:
    commit, payload, waited = await served(Told(*[of_the_record(cause)] * 4))
    assert (payload, commit.dead_reason, waited) == ({"recorded": True}, "", [])
    told = Told(*[of_the_record(cause)] * 50)
    commit, payload, waited = await served(told)
    assert (len(told.left_s), waited) == (5, [])
    assert payload["error"]["type"] == "failed"
    assert "send it again later" in payload["error"]["message"]
    assert commit.dead_reason.startswith("failed: ")


@pytest.mark.parametrize(
    ("error", "kind", "dead"),
    [(InvalidMessage("odd"), "invalid", "invalid: odd"), (RefusedMessage("no"), "refused", "")],
)
async def test_what_is_not_served_is_answered_and_only_the_invalid_is_set_aside(
    error: MessageError, kind: str, dead: str
) -> None:
    commit, payload, _ = await served(Told(error))
    assert payload["error"] == {"type": kind, "message": str(error)}
    assert commit.dead_reason == dead


@pytest.fixture
def with_recipes() -> Settings:
    return Settings.read(memory_kinds=("recipe",))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"title": "x"}, "memories.0.id: "),
        ({"id": 7, "title": "x"}, "memories.0.id: "),
        ({"id": "a" * 513, "title": "x"}, "memories.0.id: "),
        ({"id": "a"}, "nothing to change"),
        ({"id": "a", "expected_version": "1", "title": "x"}, "memories.0.expected_version: "),
        ({"id": "a", "expected_version": True, "title": "x"}, "memories.0.expected_version: "),
        ({"id": "a", "tilte": "x"}, "did you mean title?"),
        ({"id": "a", "supersedes": ["b"]}, "memories.0.supersedes: it cannot be changed"),
        ({"id": "a", "text": None}, "it cannot be cleared"),
        ({"id": "a", "kind": "gossip"}, "'gossip' is no kind of memory; there are world"),
        ({"id": "a", "kind": "gossip"}, "recipe"),
    ],
)
def test_one_that_is_wrong_is_rejected_with_what_to_do(raw: dict[str, Any], says: str, with_recipes: Settings):
    found = read_patch(raw, "memories.0", with_recipes)
    assert isinstance(found, MemoryVerdictV1)
    assert found.status == "rejected"
    assert says in (found.reason or "")


def test_a_change_is_redacted_as_what_is_stored_is(with_recipes: Settings):
    raw = {"id": "m", "text": "ana@example.org", "speaker": "ana@example.org"}
    patch = read_patch(raw, "memories.0", with_recipes.changed(redact=("store:all",)))
    assert isinstance(patch, Patch)
    assert patch.changes == {"text": "‹e-mail address›", "speaker": "ana@example.org"}


@pytest.fixture
def served_tenants() -> Settings:
    return Settings.read(tenants=("acme", "beta"), default_tenant="acme")


def test_what_is_not_to_be_stored_is_redacted_before_it_is_composed(served_tenants: Settings) -> None:
    told = {
        "id": "ana@example.org",
        "text": "Ana is at ana@example.org, +49 30 1234567.",
        "title": "ana@example.org",
        "user_id": "ana@example.org",
        "entities": ["ana@example.org"],
        "metadata": {"from": ["ana@example.org"]},
    }
    (stored,) = compose_all([told], served_tenants.changed(redact=("store:email", "render:phone")))
    assert isinstance(stored, Memory)
    assert stored.text == "Ana is at ‹e-mail address›, +49 30 1234567."
    assert stored.title == "‹e-mail address›"
    assert stored.given_entities == ("‹e-mail address›",)
    assert stored.metadata == {"from": ["‹e-mail address›"]}
    assert (stored.id, stored.user_id) == ("ana@example.org", "ana@example.org"), "by these it is found again"
    (plain,) = compose_all([told], served_tenants)
    assert isinstance(plain, Memory) and plain.text == told["text"], "off by default"


def test_a_memory_that_cannot_be_read_costs_no_other(
    served_tenants: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one whose text a rule fails on."""

    def composed(message: MemoryV1, tenant: str) -> Memory:
        if message.id == "b":
            raise StopIteration(message.text)
        return compose(message, tenant)

    monkeypatch.setattr(handlers, "compose", composed)
    told = [{"id": "a", "text": "x"}, {"id": "b", "text": "secret"}, {"id": "c", "text": "z"}]
    first, second, third = compose_all(told, served_tenants)
    assert isinstance(first, Memory) and isinstance(third, Memory) and isinstance(second, MemoryVerdictV1)
    assert "memories.1: it could not be read (StopIteration)" in str(second.reason)
    assert "composed" in caplog.text and "secret" not in caplog.text


class Touched:
    """A record that notes what it was told, or is away."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[str]]] = []
        self.away = False

    async def touch(self, tenant: str, ids: Sequence[str]) -> None:
        if self.away:
            raise RecordError("Postgres is away")
        self.told.append((tenant, list(ids)))


@pytest.fixture
def record() -> Touched:
    return Touched()


@pytest.fixture
def counts(record: Touched) -> AccessCounts:
    return AccessCounts(cast("Any", record))


async def test_the_first_fifty_ids_of_a_reply_are_counted(record: Touched, counts: AccessCounts) -> None:
    ids = [f"m{place}" for place in range(60)]
    counts.note("acme", ids)
    counts.note("acme", ["m1"])
    counts.note("other", ["m1"])
    assert record.told == [], "a reply does not wait for it"
    await counts.flush()
    assert record.told == [("acme", [*ids[:50], "m1"]), ("other", ["m1"])]
    await counts.flush()
    assert len(record.told) == 2, "each is written once"


async def test_what_cannot_be_written_is_dropped(record: Touched, counts: AccessCounts) -> None:
    record.away = True
    counts.note("acme", ["m1"])
    await counts.flush()
    record.away = False
    counts.note("acme", ["m2"])
    await counts.flush()
    assert record.told == [("acme", ["m2"])]


class Copies:
    """The positions of the copies at each look, the last ones from then on, and what was published."""

    def __init__(self, *looks: dict[str, int]) -> None:
        self.looks, self.looked, self.published = list(looks), 0, list[Mapping[int, int]]()

    async def copies(self, pool: object) -> list[CopyPosition]:
        positions = self.looks[min(self.looked, len(self.looks) - 1)]
        self.looked += 1
        found = [(*name.split("@"), at) for name, at in positions.items()]
        return [CopyPosition(copy=copy, kind=kind, position=at, updated_at=0.0) for kind, copy, at in found]

    async def publish(self, positions: Mapping[int, int]) -> None:
        self.published.append(positions)

    async def reached(self, copies: Mapping[int, int]) -> None: ...


class AwayCopies(Copies):
    """Positions that cannot be read."""

    async def copies(self, pool: object) -> list[CopyPosition]:
        raise RecordError("Postgres is away")


def serving_on(copies: Copies) -> MessageHandlers:
    async def persisted(since_ms: int) -> bool:
        return True

    pool = cast(Any, object())
    return MessageHandlers(Settings.read(), pool, cast(Any, copies), are_persisted=persisted, wake=lambda: None)


def waiting_on(copies: Copies) -> Callable[..., Awaitable[MemoryReceiptV1]]:
    """Receipts at a position that wait for these copies, each `usual_ms` where it is not told how long."""
    away, served = Settings.read(), serving_on(copies)

    def receipt(position: int, wait_ms: int | None = None, *, usual_ms: int = 30_000) -> Awaitable[MemoryReceiptV1]:
        served._settings = away.changed(acknowledge_ms=usual_ms)  # pyright: ignore[reportPrivateUsage]
        served._looked_at = -math.inf  # pyright: ignore[reportPrivateUsage]
        made = MemoryReceiptV1(stored=1, unchanged=0, conflict=0, rejected=0, position=position, results=[])
        return served._settled(made, (), wait_ms, math.inf)  # pyright: ignore[reportPrivateUsage]

    return receipt


@pytest.mark.parametrize(
    ("looks", "pending", "named"),
    [
        ([dict[str, int]()], False, list[str]()),
        ([{"index@a": 7, "graph@a": 7}], False, []),
        ([{"index@a": 6, "graph@a": 7}, {"index@a": 7, "graph@a": 7}], False, []),
        ([{"index@a": 9, "graph@a": 9, "index@b": 6}, {"index@a": 9, "graph@a": 9, "index@b": 8}], False, []),
        ([{"index@a": 7, "graph@a": 6}], True, ["graph"]),
        ([{"index@a": 0, "graph@a": 7, "index@b": 0}], True, ["index"]),
        ([{"index@a": 6, "graph@b": 2}], True, ["index", "graph"]),
    ],
)
async def test_a_receipt_waits_until_all_copies_have_it_and_names_those_that_do_not(
    looks: list[dict[str, int]], pending: bool, named: list[str]
) -> None:
    copies = Copies(*looks)
    receipt = await waiting_on(copies)(7, usual_ms=50 if pending else 30_000)
    assert (receipt.pending, receipt.pending_in) == (pending, named)
    assert copies.published == [{}], "every worker hears that there is something new"


async def test_without_waiting_there_is_one_look_and_no_news() -> None:
    copies = Copies({"index@a": 6})
    receipt = await waiting_on(copies)(7, 0)
    assert (receipt.pending, receipt.pending_in, copies.looked, copies.published) == (True, ["index"], 1, [])


async def test_where_positions_cannot_be_read_it_is_pending_and_nothing_is_named() -> None:
    receipt = await waiting_on(AwayCopies())(7)
    assert (receipt.pending, receipt.pending_in) == (True, [])


async def test_a_copy_that_was_waited_for_in_vain_holds_up_no_other_receipt_until_it_is_there() -> None:
    copies = Copies({"index@a": 9, "index@slow": 1})
    receipt = waiting_on(copies)
    assert (await receipt(7, usual_ms=50)).pending is True

    copies.looked, copies.looks = 0, [{"index@a": 9, "index@slow": 6}, {"index@a": 9, "index@slow": 9}]
    assert ((await receipt(8)).pending, copies.looked) == (True, 1)
    copies.looked = 0
    assert ((await receipt(8, 30_000)).pending, copies.looked) == (False, 2), "who says how long waits so long"
    copies.looked, copies.looks = 0, [{"index@a": 9, "index@slow": 7}, {"index@a": 9, "index@slow": 8}]
    assert ((await receipt(8)).pending, copies.looked) == (False, 2), "it was there, so it is waited for again"


async def test_a_message_of_long_texts_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = list[list[str]]()

    def composed(memories: Sequence[Mapping[str, Any]], *given: Any, first: int = 0) -> list[Any]:
        turns.append([one["id"] for one in memories])
        return [MemoryVerdictV1(id=one["id"], status="unchanged") for one in memories]

    class Nothing:
        def __init__(self, pool: object, *, extractor: str) -> None: ...

        async def store(self, memories: object) -> Any:
            return SimpleNamespace(verdicts=[], superseded=(), position=None)

    monkeypatch.setattr(handlers, "compose_all", composed)
    monkeypatch.setattr(handlers, "Record", Nothing)
    store = serving_on(Copies({})).by_stream["stores"].receipt

    def message(**texts: str) -> Received:
        memories = [{"id": name, "text": text} for name, text in texts.items()]
        entry = Entry(id="1-0", fields={}, deliveries=1)
        return Received(entry=entry, correlation_id="c", payload={"memories": memories})

    long, short = message(a="x" * 60_000, b="x" * 60_000, c="x"), message(d="x")
    await asyncio.gather(store(long, math.inf), store(short, math.inf))
    assert turns == [["a"], ["d"], ["b", "c"]]


async def test_so_many_receipts_wait_as_long_as_they_say_and_others_as_if_they_said_nothing() -> None:
    receipt = waiting_on(Copies({"index@slow": 1}))
    assert (await receipt(7, usual_ms=50)).pending is True
    async with asyncio.timeout(20):
        waiting = [asyncio.ensure_future(receipt(8, 30_000, usual_ms=50)) for _ in range(24)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0.05)
        done = [one.result().pending for one in waiting if one.done()]
    assert done == [True] * 16
    await cancel(*waiting)


async def test_a_short_wait_in_vain_says_nothing_about_a_copy() -> None:
    copies = Copies({"index@a": 1})
    receipt = waiting_on(copies)
    assert (await receipt(7, 1)).pending is True
    copies.looked, copies.looks = 0, [{"index@a": 6}, {"index@a": 7}]
    assert ((await receipt(7)).pending, copies.looked) == (False, 2)
