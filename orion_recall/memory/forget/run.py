"""Forgetting, from beginning to end: record, decisions, bus, copies, files. What was stopped is run again.

The order matters: first nothing new can quote what is forgotten, then what quoted it is blanked, twice, and at last
files are rewritten: a vacuum leaves a row's bytes. On the bus, replies and dead letters that name it are deleted. A
decision that is not in the log yet is replaced by itself without words. What waits for a worker is left to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, LiteralString, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from orion_recall.decisions.removal import blanked
from orion_recall.decisions.sink import id_parts
from orion_recall.engines.replay_folders import delete_left
from orion_recall.errors import EngineError, ModelError, SourceError
from orion_recall.memory.forget.record import ForgetRecord, Report, Target
from orion_recall.memory.replicas.tombstones import Tombstones, TombstoneStream
from orion_recall.postgres.pool import POSTGRES_ERRORS, Connection, reason, translate
from orion_recall.settings import DECISIONS_GROUP, Settings
from orion_recall.text.normal import memory_key
from orion_recall.values import JsonValue

_AT_ONCE = 100
_REWRITE_S = 120.0
_POLL_S = 0.1
_STRING = re.compile(rb'("(?:[^"\\]|\\.)*")\s*(:?)')
_KEYS = {"user": ("user", "user_id"), "session": ("session", "session_id"), "tenant": ("tenant",)}
_Fields = Mapping[bytes, bytes]
_Row = tuple[bytes, _Fields]


class Matcher:
    """Tells whether an entry holds what is forgotten."""

    def __init__(self, target: Target, ids: Collection[str], default_tenant: str) -> None:
        self._target, self.ids, self._default = target, frozenset(ids), default_tenant
        names = "|".join(re.escape(one) for one in target.values)
        self._names = re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE) if target.kind == "person" else None

    def matches(self, fields: _Fields) -> bool:
        """Whether it does. One that names only other tenants does not."""
        texts = [one for value in fields.values() for one in _texts(value)]
        tenants = {text for key, text in texts if key == "tenant"}
        if tenants and self._target.tenant not in tenants:
            return False
        if not self.ids.isdisjoint(text for _, text in texts):
            return True
        if self._names is not None:
            return any(self._names.search(text) for _, text in texts)
        if self._target.kind == "tenant":
            # A message of a caller, set aside, that names no tenant is of the default one.
            is_message = any(name.startswith(b"field:") or name == b"message_head" for name in fields)
            return bool(tenants) or (self._target.tenant == self._default and is_message)
        keys = _KEYS.get(self._target.kind, ())
        return any(key in keys and text == self._target.values[0] for key, text in texts)

    def among(self, rows: Sequence[_Row]) -> list[_Row]:
        return [row for row in rows if self.matches(row[1])]

    def blanked(self, fields: _Fields) -> dict[bytes, bytes]:
        """A decision without its words; the same where it has none that go."""
        try:
            envelope = json.loads(fields[b"envelope"])
            payload = cast("dict[str, Any]", envelope["payload"])
            value = self._target.values[0] if self._target.values else self._target.tenant
            is_by = any(payload.get(name) == value for name in _KEYS.get(self._target.kind, ()))
            envelope["payload"] = blanked(payload, with_asker=is_by, ids=self.ids)
            if envelope["payload"] == payload:
                return dict(fields)
            return {b"envelope": json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()}
        except (KeyError, TypeError, ValueError, RecursionError):
            return {b"envelope": b""}


class ForgetBus:
    """The streams of one installation. `is_ours`: the server is the embedded one of this data folder."""

    def __init__(self, redis: Redis, settings: Settings, record: ForgetRecord, *, is_ours: bool) -> None:
        self._redis, self._settings, self._record, self._is_ours = redis, settings, record, is_ours

    async def clear(self, matcher: Matcher, *, dry_run: bool = False) -> dict[str, int]:
        """Removes entries that match, or counts them: by what the stream is."""
        intake, decisions = self._settings.intake_streams.values(), self._settings.decision_stream
        dead = [f"{stream}:dead" for stream in (*intake, decisions)]
        return {
            "dead letters": await self._delete(dead, matcher, dry_run=dry_run),
            "replies": await self._delete(await self._reply_streams(), matcher, dry_run=dry_run),
            "decision stream": await self._decisions(decisions, matcher, dry_run=dry_run),
            "waiting messages": await self._delete(intake, matcher, dry_run=True),
        }

    async def rewrite(self, report: Report) -> None:
        """Rewrites the embedded server's files without what was deleted; of another one says what is left to do."""
        if not self._is_ours:
            report.add(
                "bus: files of its server",
                what="entries were deleted",
                remains="their bytes, in its append-only file, snapshots and replicas",
                until="its operator rewrites them (BGREWRITEAOF, with aof-use-rdb-preamble no)",
            )
            return
        redis = cast("Any", self._redis)
        try:
            # As commands: a snapshot would take blocks of streams along as they are, deleted entries included.
            await redis.execute_command("CONFIG", "SET", "aof-use-rdb-preamble", "no")
            async with asyncio.timeout(_REWRITE_S):
                await self._wait_for_rewrite()  # one that runs already began before the entries were deleted
                await redis.execute_command("BGREWRITEAOF")
                await asyncio.sleep(_POLL_S)
                await self._wait_for_rewrite()
            await redis.execute_command("SLOWLOG", "RESET")
        except (RedisError, TimeoutError) as error:
            report.unfinished.append(f"the bus's append-only file could not be rewritten: {error or 'in time'}")
            return
        report.add("bus: append-only file", what="rewritten")

    async def _wait_for_rewrite(self) -> None:
        while True:
            told = await cast("Any", self._redis).info("persistence")
            if not told.get("aof_rewrite_in_progress") and not told.get("aof_rewrite_scheduled"):
                return
            await asyncio.sleep(_POLL_S)

    async def _reply_streams(self) -> list[str]:
        redis = cast("Any", self._redis)
        prefix = re.sub(r"([*?\[\]\\^])", r"\\\1", self._settings.prefix)
        patterns = [prefix + pattern for pattern in self._settings.reply_streams]
        keys = {key for one in patterns async for key in redis.scan_iter(match=one, count=1000, _type="STREAM")}
        return [key.decode("utf-8", "surrogateescape") for key in keys]

    async def _found(self, stream: str, matcher: Matcher) -> AsyncGenerator[list[_Row]]:
        """The entries of a stream that match, in pages."""
        first = "-"
        while True:
            try:
                rows = cast("list[_Row]", await self._redis.xrange(stream, min=first, count=_AT_ONCE))
            except ResponseError:  # no stream: it is not ours
                return
            if not rows:
                return
            yield await asyncio.to_thread(matcher.among, rows)
            first = f"({rows[-1][0].decode()}"

    async def _delete(self, streams: Iterable[str], matcher: Matcher, *, dry_run: bool) -> int:
        count = 0
        for stream in streams:
            async with contextlib.aclosing(self._found(stream, matcher)) as pages:
                async for rows in pages:
                    correlations = {entry_id: _correlation(fields) for entry_id, fields in rows}
                    others = await self._record.of_others([*filter(None, correlations.values())])
                    own = [entry_id for entry_id, correlation in correlations.items() if correlation not in others]
                    count += len(own)
                    if own and not dry_run:
                        await self._redis.xdel(stream, *own)
        return count

    async def _decisions(self, stream: str, matcher: Matcher, *, dry_run: bool) -> int:
        """Those in the log are deleted here; the others are replaced by themselves without words."""
        count = 0
        async with contextlib.aclosing(self._found(stream, matcher)) as pages:
            async for rows in pages:
                for entry_id, fields in rows:
                    changed = await asyncio.to_thread(matcher.blanked, fields)
                    if changed == fields:
                        continue
                    count += 1
                    if dry_run:
                        continue
                    is_open = await self._is_open(stream, entry_id)
                    async with self._redis.pipeline(transaction=True) as pipeline:
                        if is_open:
                            pipeline.xadd(stream, cast("Any", changed))
                        pipeline.xack(stream, DECISIONS_GROUP, entry_id)
                        pipeline.xdel(stream, entry_id)
                        await pipeline.execute()
        return count

    async def _is_open(self, stream: str, entry_id: bytes) -> bool:
        """Whether it is not in the log yet: no sink has read it, or none has acknowledged it."""
        name = entry_id.decode()
        groups: list[dict[str, Any]] = []
        with contextlib.suppress(ResponseError):  # the stream is gone, or was never there
            groups = await cast("Any", self._redis).xinfo_groups(stream)
        for group in groups:
            if group["name"] in (DECISIONS_GROUP, DECISIONS_GROUP.encode()):
                if id_parts(name) > id_parts(group["last-delivered-id"]):
                    return True
                return bool(await self._redis.xpending_range(stream, DECISIONS_GROUP, name, name, 1))
        return True


def _correlation(fields: _Fields) -> str:
    with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError):
        return str(json.loads(fields[b"envelope"])["correlation_id"])
    return ""


def _texts(value: bytes) -> Iterator[tuple[str, str]]:
    """The texts in quotation marks, each with the key before it, also of JSON that was cut; and the whole."""
    key = ""
    for token, colon in _STRING.findall(value):
        with contextlib.suppress(ValueError):
            text = str(json.loads(token))
            yield "" if colon else key, text
            key = text if colon else key
    yield "", value.decode("utf-8", "replace")


# The planner's statistics quote common values. Only the server's owner can rewrite them.
_STATISTICS = "pg_catalog.pg_statistic"
_TABLES: tuple[LiteralString, ...] = (
    "memories", "memory_history", "memory_requests", "memory_access", "memory_extractions", "memory_successions",
    "memory_succession_history", "memory_forget_ids", "memory_forgets", "entity_merges", "recall_feedback",
    "copy_requests", "recall_decisions", _STATISTICS,
)  # fmt: skip
_OLD_READERS_S, _MOST_WAL_ROUNDS = 10.0, 200
_SERVER: LiteralString = """
SELECT current_setting('is_superuser') = 'on' AND current_setting('cluster_name') = 'orion-recall' AS is_ours,
    current_setting('max_wal_size') AS max_wal, current_setting('checkpoint_timeout') AS checkpoint
"""
_SEGMENTS = "SELECT name FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'"
# Who sees rows as they were before: what is rewritten now would take those along.
_OLD_READERS: LiteralString = """
SELECT count(*) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_xmin IS NOT NULL AND age(backend_xmin) > age($1::text::xid)
"""


async def rewrite_storage(connection: Connection, report: Report) -> None:
    with translate("rewriting tables"):
        server = await connection.fetchrow(_SERVER)
        assert server is not None
        await _wait_for_readers(connection, report)
        await connection.execute("SET lock_timeout = '10s'")
        failed = [f"{table} ({why})" for table in _TABLES if (why := await _rewritten(connection, table))]
        report.add(
            "Postgres: tables",
            what=f"{len(_TABLES) - len(failed)} tables and their indexes rewritten",
            remains=f"bytes in free room of {', '.join(failed)}" if failed else "",
            until="new rows are written over them" if failed else "",
        )
        if server["is_ours"]:
            await _remove_own_log(connection, report)
            return
        failure = await _failure_of(connection, "CHECKPOINT")
        report.add(
            "Postgres: write-ahead log",
            what="a checkpoint was made" if failure is None else f"no checkpoint ({failure})",
            remains="what was written until now",
            until=f"its server reuses the files: after up to {server['max_wal']} more of log, and a checkpoint "
            f"every {server['checkpoint']}; archives and replicas as their operator has set",
        )


async def _wait_for_readers(connection: Connection, report: Report) -> None:
    xid = await connection.fetchval("SELECT pg_current_xact_id()::text")
    ends = time.monotonic() + _OLD_READERS_S
    while readers := await connection.fetchval(_OLD_READERS, str(int(xid) % (1 << 32))):
        if time.monotonic() > ends:
            report.unfinished.append(
                f"{readers} long transactions see the rows as they were, so Postgres keeps them: end those"
            )
            return
        await asyncio.sleep(0.2)


async def _rewritten(connection: Connection, table: LiteralString) -> str | None:
    """None, or why it was not: VACUUM only warns where this login does not own the table."""
    analyze = "" if table == _STATISTICS else ", ANALYZE"
    before = await connection.fetchval("SELECT pg_relation_filenode($1::regclass)", table)
    why = await _failure_of(connection, f"VACUUM (FULL{analyze}) {table}")
    if why is None and before == await connection.fetchval("SELECT pg_relation_filenode($1::regclass)", table):
        return "this login does not own it: let the owner run it again"
    return why


async def _remove_own_log(connection: Connection, report: Report) -> None:
    """The embedded server's log: every file that is there now is left behind, and removed."""
    before = await connection.fetch(_SEGMENTS)
    # Files are removed, not renamed with what they hold.
    await connection.execute("ALTER SYSTEM SET wal_recycle = off")
    try:
        await connection.execute("SELECT pg_reload_conf()")
        await asyncio.sleep(0.2)  # the checkpointer reads its settings when it wakes
        for _ in range(min(len(before) + 1, _MOST_WAL_ROUNDS)):
            await connection.execute("SELECT pg_logical_emit_message(false, 'orion-recall', 'forget')")
            await connection.execute("SELECT pg_switch_wal()")
        await connection.execute("CHECKPOINT")
        await connection.execute("CHECKPOINT")
        left = {*before} & {*await connection.fetch(_SEGMENTS)}
    finally:
        await connection.execute("ALTER SYSTEM RESET wal_recycle")
        await connection.execute("SELECT pg_reload_conf()")
    report.add(
        "Postgres: write-ahead log",
        len(before) - len(left),
        what="of its files removed",
        remains=f"{len(left)} of its files" if left else "",
        until="the next checkpoints, five minutes at most each" if left else "",
    )


async def _failure_of(connection: Connection, statement: str) -> str | None:
    try:
        await connection.execute(cast("LiteralString", statement))
    except POSTGRES_ERRORS as error:
        return reason(error)
    return None


# A recall that has read what is forgotten answers until then at the latest; longer deadlines are not waited for.
_IN_FLIGHT_S = 5.0
_BLANKED = ("decisions", "history of others", "feedback")
CopyToCompact = tuple[str, Callable[[], Awaitable[Mapping[str, JsonValue]]] | None]
"""The name of a copy of index or graph, and what writes its files anew; None: its worker is gone."""


class Forgetting:
    """One run for one target. `redis` is None where there is no bus; `own_bus`: it is the embedded one."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        target: Target,
        *,
        redis: Redis | None,
        own_bus: bool,
        copies: Callable[[], Awaitable[Sequence[CopyToCompact]]],
    ) -> None:
        self._settings, self._connection, self._redis, self._copies = settings, connection, redis, copies
        self.record = ForgetRecord(connection, target)
        self._bus = ForgetBus(redis, settings, self.record, is_ours=own_bus) if redis is not None else None
        self._on_bus: Counter[str] = Counter()

    async def dry_run(self) -> Report:
        """Counts what would go, by place; nothing is changed. RecordError while Postgres is away."""
        target = await self.record.with_aliases()
        report = Report(kind=target.kind, tenant=target.tenant, dry_run=True)
        report.memories, ids, decisions = await self.record.count()
        report.add("Postgres: memories", report.memories)
        report.add("Postgres: decisions", decisions)
        if self._bus is not None:
            matcher = Matcher(target, ids, self._settings.default_tenant)
            for place, count in (await self._bus.clear(matcher, dry_run=True)).items():
                report.add(f"bus: {place}", count)
        for name, _ in await self._copies():
            report.add(name, report.memories, "memories at most")
        self._add_others(report)
        return report

    async def run(self, actor: str | None = None) -> Report:
        """Forgets. RecordError when it cannot go on; running it again finishes what was begun."""
        target = await self.record.with_aliases()
        report = Report(kind=target.kind, tenant=target.tenant, dry_run=False)
        others = await self.record.begin(actor)
        report.forget = self.record.forget
        redis = self._redis
        stream = redis and TombstoneStream(redis, redis, self._settings.tombstone_stream, Tombstones())
        while (positions := await self.record.next_batch()) is not None:
            if stream is not None and positions:
                # Workers leave them out at once, before their copies have heard of it.
                await stream.publish({memory_key(target.tenant, name): at for name, at in positions.items()})
        await self.record.clear_around()
        forgotten_at = time.monotonic()
        await self._blank()
        for copy in await self._copies():
            await _compact(copy, report)
        in_flight_s = min(_IN_FLIGHT_S, self._settings.deadline_ms / 1000)
        await asyncio.sleep(max(0.0, forgotten_at + in_flight_s - time.monotonic()))
        await self._blank()
        copies, report.places = report.places, []
        self._add_rows(report)
        report.places += copies
        await rewrite_storage(self._connection, report)
        if self._bus is not None:
            await self._bus.rewrite(report)
        gone, in_use = delete_left(self._settings.data_dir)
        if gone:
            report.add("folders of replays", gone, "folders of killed ones")
        if in_use:
            report.add("folders of replays", remains=f"all that {in_use} running have", until="they end")
        self._add_others(report)
        if not report.unfinished:
            await self.record.finish({one.place: one.gone for one in report.places if one.gone})
        report.unfinished += [f"another one was stopped ({other}): run that again, too" for other in others]
        return report

    async def _blank(self) -> None:
        await self.record.blank_decisions()
        if self._bus is not None:
            matcher = Matcher(self.record.target, await self.record.ids(), self._settings.default_tenant)
            self._on_bus["waiting messages"] = 0  # they are counted, and stay
            self._on_bus.update(await self._bus.clear(matcher))

    def _add_rows(self, report: Report) -> None:
        report.memories = self.record.gone.pop("memories", 0)
        kept = "ids and tenant: they stay taken"
        report.add("Postgres: memories", report.memories, remains=kept, until="for ever")
        for place, count in self.record.gone.items():
            report.add(f"Postgres: {place}", count, "blanked" if count and place in _BLANKED else "")
        waiting = self._on_bus.pop("waiting messages", 0)
        for place, count in self._on_bus.items():
            report.add(f"bus: {place}", count)
        if waiting:
            report.add("bus: waiting messages", remains=f"{waiting} messages", until="a worker serves them")
            report.unfinished.append(f"{waiting} messages that hold it wait for a worker: run this again then")

    def _add_others(self, report: Report) -> None:
        settings, never = self._settings, "cannot be reached from here"
        report.add("backups and exports", remains=f"all that they have; {never}", until="you delete them")
        report.add("readers of replies and decisions", remains=f"their copies; {never}", until="they delete them")
        if any((settings.data_dir / "replays").glob("*.json")):
            report.add("reports of replays", remains="questions that were not redacted", until="you delete them")
        report.add("disks", remains="freed blocks of deleted files", until="the file system writes over them")
        if settings.mappings is not None or settings.timeline_table != "collapse_mirror":
            report.add("mapped stores", remains=f"all that they have; {never}", until="their owners delete it")
        if settings.content_capture:
            report.add("logs and spans", remains="texts (ORION_CONTENT_CAPTURE)", until="your logging deletes them")
        if self._bus is None:
            report.add("bus", remains="not looked at: no bus is configured", until="a run with ORION_REDIS_URL")


async def _compact(copy: CopyToCompact, report: Report) -> None:
    """Has the files of one copy written anew, and adds to the report what was done, or why it was not."""
    name, compact = copy
    try:
        if compact is None:
            raise SourceError(
                "its worker is gone: start it and run this again, or delete its folder and take it off the list "
                "(`orion-recall status --forget`)"
            )
        done = await compact()
    except (SourceError, ModelError, EngineError) as error:
        report.add(name, remains="what it held", until="it is there again; then run this again")
        report.unfinished.append(f"{name}: {error}")
        return
    if not done["compacted"]:
        remains = "bytes in its server's files, snapshots and logs"
        until = "its server compacts them, and its operator deletes snapshots"
        report.add(name, what="deleted", remains=remains, until=until)
    else:
        builds = f", and {done['builds']} unused builds deleted" if done.get("builds") else ""
        report.add(name, what=f"files written anew{builds}")
        if done.get("held"):
            report.unfinished.append(f"{name}: a rebuild is under way: run this again when it is done")
