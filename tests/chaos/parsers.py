"""What reads texts of others, each as a function of bytes that only raises errors of our own.

A memory, a question or a file may hold anything. An `OrionError` says so to its sender; any other exception is a
fault, as is an unexpected error that was caught and logged.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from orion_recall.bus.envelope import decode
from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import (
    DELETE_KIND,
    FEEDBACK_KIND,
    QUERY_KIND,
    STORE_KIND,
    UPDATE_KIND,
    MemoryDeleteV1,
    MemoryStoreV1,
    MemoryUpdateV1,
    MemoryV1,
    RecallFeedbackV1,
    RecallQueryV1,
    ignored_fields,
    read_message,
)
from orion_recall.errors import OrionError
from orion_recall.external.mappings import load_mappings
from orion_recall.graph.cypher import parse
from orion_recall.graph.stores.reader import check_select
from orion_recall.memory.extraction.light import Passage, light
from orion_recall.memory.record.compose import compose
from orion_recall.memory.transfer.importer import ImportMapping, read_batches
from orion_recall.profile.reading import load_profile
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.search.requests import scope_of
from orion_recall.recall.understand.question import understand
from orion_recall.text.inert import inert, instructs_reader
from orion_recall.text.normal import one_line
from orion_recall.text.passages import passages
from orion_recall.text.redaction import Redaction
from orion_recall.text.small_talk import small_talk
from orion_recall.when.times import times
from orion_recall.when.told import told_times

Parser = Callable[[bytes], None]
_NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
_MODELS = {
    QUERY_KIND: RecallQueryV1,
    STORE_KIND: MemoryStoreV1,
    UPDATE_KIND: MemoryUpdateV1,
    DELETE_KIND: MemoryDeleteV1,
    FEEDBACK_KIND: RecallFeedbackV1,
}
_SPEAKERS = frozenset(("Ana", "Mel Ash", "Bo", "Clara Assistant", "April"))
_PROFILE = loaded_profiles(None)["reflect.v1"].profile
_ALL_RULES = ("log:all",)
_MEMORY = Path("/dev/shm")


def read_envelope(raw: bytes) -> None:
    """A message of the kind that it names, as a worker reads it; a question is understood as well."""
    entry = Entry(id="1795348800000-0", fields={b"envelope": raw})
    kind = next((kind for kind in _MODELS if kind.encode() in raw), QUERY_KIND)
    received = decode(entry, kind=kind, max_bytes=262_144, now=_NOW.timestamp())
    if received.error is not None:
        raise received.error
    message = read_message(_MODELS[kind], received.payload, "payload")
    if isinstance(message, RecallQueryV1):
        ignored_fields(received.payload)
        _ask(message)
    elif isinstance(message, MemoryStoreV1):
        for memory in message.memories[:3]:
            compose(read_message(MemoryV1, memory, "memories"), "default")


def read_question(raw: bytes) -> None:
    """A question in words, and the times in it; the same words as a memory."""
    text = _text(raw)
    times(text, _NOW)
    times(text, _NOW, south=True, day_first=True, names=frozenset(("april", "may")))
    told_times(text, _NOW)
    told_times(text, None)
    _ask(RecallQueryV1(fragment=text))


def _ask(query: RecallQueryV1) -> None:
    scope_of(query, _PROFILE, "default")
    understood = understand(query, _PROFILE, now=_NOW.timestamp(), speakers=_SPEAKERS)
    small_talk(query.fragment, understood.people)


def read_text(raw: bytes) -> None:
    """The text of a memory: as it is stored, embedded, extracted from and shown."""
    text = _text(raw)
    inert(text)
    one_line(text)
    instructs_reader(text)
    for span in passages(text, "Mel Ash: "):
        assert 0 <= span[0] <= span[1] <= len(text)
    Redaction.at("log", _ALL_RULES).text(text)
    light(Passage(text=text))


def read_line(raw: bytes) -> None:
    """A file of memories, a line each."""
    with _file(raw, ".jsonl") as path:
        for batch in read_batches(path, ImportMapping()):
            for memory in batch.memories:
                compose(read_message(MemoryV1, memory, ""), "default")


def read_profile(raw: bytes) -> None:
    with _file(raw, ".yaml") as path:
        load_profile(path)


def read_mappings(raw: bytes) -> None:
    with _file(raw, ".yaml") as path:
        load_mappings(path)


def read_cypher(raw: bytes) -> None:
    """A query of the graph, in Cypher and in SPARQL."""
    text = _text(raw)
    try:
        parse(text)
    except OrionError:
        check_select(text)
        raise


PARSERS: dict[str, Parser] = {
    "envelope": read_envelope,
    "question": read_question,
    "text": read_text,
    "line": read_line,
    "profile": read_profile,
    "mappings": read_mappings,
    "cypher": read_cypher,
}


class Logged(logging.Handler):
    """Unexpected errors that were caught and logged, in place of ending a worker."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage()[:2000])


@contextmanager
def logged_errors() -> Generator[list[str]]:
    """The unexpected errors that are logged in the block."""
    handler, logger = Logged(), logging.getLogger("orion_recall.tasks")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield handler.told
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


@contextmanager
def _file(raw: bytes, ending: str) -> Generator[Path]:
    folder = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    path = folder / f"orion-fuzz-{os.getpid()}{ending}"
    path.write_bytes(raw)
    try:
        yield path
    finally:
        path.unlink()
