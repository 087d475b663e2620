"""The files of an evaluation, the stores that are filled from them, the plans of its commands, and kept vectors."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import SecretStr

from orion_recall.cli.evaluate import depths_of, plan_of, refuse_to_replace
from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation import vectors
from orion_recall.evaluation.dataset import read_memories, read_queries, read_run
from orion_recall.evaluation.trials import Plan, private_settings
from orion_recall.evaluation.vectors import CachedEmbedder, VectorCache
from orion_recall.settings import Settings
from tests.samples.evaluation_samples import written

QUERY: dict[str, Any] = {"query_id": "q1", "conversation_id": "c", "query": "where?", "evidence": ["m1"]}
MEMORY: dict[str, Any] = {"memory_id": "m1", "conversation_id": "c", "text": "Ana lives in Oslo."}


def test_a_query_is_read_with_its_own_now_in_utc(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "q",
        {**QUERY, "query_date": "2023-10-22T09:55:00", "category": 2, "answer": 7, "scored": False},
        "",
        {**QUERY, "query_id": "q2", "query_date": "2023-10-22T11:55:00+02:00", "evidence": ["m1", "m1", "m2"]},
        {**QUERY, "query_id": "q3"},
    )
    first, second, third = read_queries(file)
    assert first.asked_at == second.asked_at == 1_697_968_500.0
    assert (first.category, first.scored, first.line) == ("2", False, 1)
    assert (second.evidence, second.line, third.asked_at, third.scored) == (frozenset(("m1", "m2")), 3, None, True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("not json", ":2: .*Invalid JSON"),
        ("[1]", ":2: .*"),
        ({**QUERY, "query_id": "q2", "query": ""}, ":2: query: "),
        ({"query_id": "q2", "query": "x", "conversation_id": ""}, ":2: conversation_id: "),
        ({**QUERY, "query_id": "q2", "evidence": "m1"}, ":2: evidence: "),
        ({**QUERY, "query_id": "q2", "query_date": "May"}, ":2: query_date: 'May' is not an ISO 8601 time"),
        (QUERY, ":2: query_id 'q1' is in line 1 already"),
        ({**QUERY, "query_id": "q2", "scope": "session"}, ":2: .*scope session needs session_id"),
        ({**QUERY, "query_id": "q2", "scope": "user"}, ":2: .*scope user needs user_id"),
        ({**QUERY, "query_id": "q2", "scope": "all"}, ":2: scope: "),
    ],
)
def test_a_bad_query_is_named_with_file_and_line(tmp_path: Path, line: object, told: str) -> None:
    file = written(tmp_path, "q.jsonl", QUERY, line)
    with pytest.raises(EvaluationError, match=f"^{file}{told}"):
        read_queries(file)


def test_empty_and_absent_files_are_refused(tmp_path: Path) -> None:
    empty = written(tmp_path, "empty")
    for read, told in ((read_queries, "no query"), (read_run, "no line"), (read_memories, "no memory")):
        with pytest.raises(EvaluationError, match=told):
            read(empty)
    with pytest.raises(EvaluationError, match="No such file"):
        read_queries(tmp_path / "nowhere")


def test_a_run_of_somebody_elses_needs_no_bundle(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "r",
        {"query_id": "q1", "ranked": ["m1", "m2"]},
        {"query_id": "q2", "ranked": [], "selected": ["m1"], "tokens": 9},
    )
    run = read_run(file)
    assert (run["q1"].ranked, run["q1"].selected) == (("m1", "m2"), None)
    assert (run["q2"].ranked, run["q2"].selected) == ((), ("m1",))
    bad: tuple[tuple[dict[str, Any], str], ...] = (
        ({"query_id": "q1"}, "ranked: Field required"),
        ({"query_id": 1, "ranked": []}, "line 1"),
    )
    for line, told in bad:
        with pytest.raises(EvaluationError, match=f":2: .*{told}"):
            read_run(written(tmp_path, "bad", {"query_id": "1", "ranked": []}, line))


def test_an_export_of_the_record_is_read_as_it_is(tmp_path: Path) -> None:
    exported = {"id": "m1", "tenant": "acme", "text": "Ana lives in Oslo.", "occurred_at": "2026-03-01T12:00:00Z"}
    file = written(tmp_path, "m", {**exported, "metadata": {"memory_id": "of another"}}, {**exported, "id": "m2"})
    first, second = read_memories(file)
    assert (first.tenant, first.id, first.occurred_at, second.id) == ("acme", "m1", 1_772_366_400.0, "m2")
    assert first.metadata == {"memory_id": "of another"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.jsonl", '{"id": "m1", "text": "Ana lives in Oslo.", "speaker": "Ana"}'),
        ("m.json", '[{"id": "m1", "text": "Ana lives in Oslo.", "speaker": "Ana"}]'),
        ("m.json", '[\n  {"key": "m1",\n   "content": "Ana lives in Oslo.", "author": "Ana"}\n]'),
        ("m.csv", "id,text,speaker\nm1,Ana lives in Oslo.,Ana"),
        ("m.tsv", "text\tid\tauthor\nAna lives in Oslo.\tm1\tAna"),
    ],
)
def test_a_file_that_an_import_takes_is_taken_as_it_is(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    (memory,) = read_memories(tmp_path / name)
    assert (memory.tenant, memory.id, memory.speaker) == ("default", "m1", "Ana")
    (query,) = read_queries(written(tmp_path, "q", {"query_id": "q1", "query": "where?", "evidence": ["m1"]}))
    assert query.conversation == memory.tenant


def test_memories_are_composed_with_their_conversation_as_tenant(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "m",
        {**MEMORY, "turn_datetime": "2023-05-08T13:56:00", "session_id": "s", "speaker": "Ana"},
        {**MEMORY, "memory_id": "m2", "session_datetime": "2023-05-08T13:56:00", "turn_datetime": None},
        {**MEMORY, "conversation_id": "d", "session_datetime": None, "title": "Ana"},
    )
    dated, by_session, undated = read_memories(file)
    assert (dated.tenant, dated.id, dated.session_id, dated.occurred_at) == ("c", "m1", "s", 1_683_554_160.0)
    assert by_session.occurred_at == dated.occurred_at
    assert (undated.tenant, undated.occurred_at, undated.title) == ("d", None, "Ana")
    assert "Oslo" in dated.entities


def test_all_bad_memories_are_named_up_to_five(tmp_path: Path) -> None:
    bare: dict[str, Any] = {"memory_id": "m2", "conversation_id": "c"}
    file = written(tmp_path, "m", MEMORY, "x", bare, {"memory_id": "m3", "text": "t"}, MEMORY, *["y"] * 4)
    with pytest.raises(EvaluationError) as caught:
        read_memories(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == 6
    assert {line.split(":")[1] for line in lines[:5]} <= {"2", "3", "5", "6", "7", "8", "9"}
    assert lines[5] == "… and 2 more"
    with pytest.raises(EvaluationError, match="memory_id 'm1' is in line 1 already"):
        read_memories(written(tmp_path, "twice", MEMORY, MEMORY))


def test_no_address_of_a_store_is_taken_over(tmp_path: Path) -> None:
    given = Settings.read(
        redis_url=SecretStr("redis://somewhere"),
        prefix="live:",
        data_dir=Path("/srv/live"),
        tenants=("acme",),
        postgres_dsn=SecretStr("postgresql://somewhere/live"),
        timeline_table="events",
        model_path=Path("/srv/model"),
        profiles_dir=Path("/srv/profiles"),
    )
    private = private_settings(given, tmp_path)
    assert (private.redis_url, private.prefix, private.data_dir, private.tenants) == (None, "", tmp_path, ("*",))
    # The timeline is only read, and models and profiles are what is measured.
    assert (private.dsn, private.timeline_table) == ("postgresql://somewhere/live", "events")
    assert (private.model_path, private.profiles_dir) == (Path("/srv/model"), Path("/srv/profiles"))


def plan(folder: Path, **options: Any) -> Plan:
    lines = [
        {"query_id": "a", "conversation_id": "c", "query": "x", "evidence": ["m"]},
        {"query_id": "b", "conversation_id": "c", "query": "x"},
        {"query_id": "c", "conversation_id": "c", "query": "x", "evidence": ["m"], "scored": False},
    ]
    given: dict[str, Any] = {"profile": None, "no_cache": True}
    return plan_of(folder / "m.jsonl", written(folder, "queries.jsonl", *lines), **given | options)


def test_what_cannot_be_planned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--cache and --no-cache"):
        plan(tmp_path, cache=tmp_path)
    with pytest.raises(SettingsError, match=r"'nobody\.v1' is no profile"):
        plan(tmp_path, profile="nobody.v1")
    none = written(tmp_path, "none.jsonl", {"query_id": "a", "conversation_id": "c", "query": "x"})
    with pytest.raises(EvaluationError, match="no judged query"):
        plan_of(tmp_path, none, profile=None, no_cache=True)


def test_a_file_that_is_read_is_not_written_over(tmp_path: Path) -> None:
    read, same = tmp_path / "q.jsonl", tmp_path / "same.jsonl"
    read.write_text("{}")
    same.symlink_to(read)
    for out in (read, same):
        with pytest.raises(SettingsError, match="name another file"):
            refuse_to_replace(out, tmp_path / "m.jsonl", read)
    refuse_to_replace(tmp_path / "run.jsonl", read)
    refuse_to_replace(None, read)


@pytest.mark.parametrize("text", ["", "0", "5,x", "-1", "5,,10", "10001", "9" * 30])
def test_depths_are_numbers_from_1_to_10000(text: str) -> None:
    with pytest.raises(SettingsError, match="--k"):
        depths_of(text)


class CountingEmbedder:
    """Vectors out of a text's hash; remembers what it was asked."""

    def __init__(self, weights: str = "w") -> None:
        self.name, self.dimension, self.weights_sha256 = "counting", 4, weights
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return np.frombuffer(hashlib.sha256(text.encode()).digest()[:16], dtype=np.uint32).astype(np.float32)

    async def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        return np.array([await self.embed_query(text) for text in texts], dtype=np.float32)


async def test_other_weights_have_vectors_of_their_own(tmp_path: Path) -> None:
    other = CountingEmbedder("other")
    with VectorCache(tmp_path) as cache:
        await CachedEmbedder(CountingEmbedder(), cache).embed_documents(["a"])
        await CachedEmbedder(other, cache).embed_documents(["a"])
    assert other.asked == ["a"]


async def test_where_nothing_can_be_kept_the_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    embedder = CountingEmbedder()
    with VectorCache(tmp_path / "file") as cache:
        await CachedEmbedder(embedder, cache).embed_documents(["a"])
    assert embedder.asked == ["a"]
    own = [record for record in caplog.records if record.name == vectors.log.name]  # others may log meanwhile
    assert [record.levelno for record in own] == [logging.WARNING]
    assert "not cached" in caplog.text


class CountingTokens(CountingEmbedder):
    """Gives two tokens a text as well."""

    token_space, token_width = "counting", 3

    async def query_tokens(self, text: str) -> npt.NDArray[np.float32]:
        return np.full((2, 3), len(text), dtype=np.float32)

    async def documents_with_tokens(
        self, texts: Sequence[str]
    ) -> tuple[npt.NDArray[np.float32], list[npt.NDArray[np.float32]]]:
        return await self.embed_documents(texts), [await self.query_tokens(text) for text in texts]


async def test_vectors_of_tokens_are_kept_with_those_of_the_text(tmp_path: Path) -> None:
    first, second = CountingTokens(), CountingTokens()
    with VectorCache(tmp_path) as cache:
        plain = await CachedEmbedder(first, cache).embed_documents(["a", "bb"])
        await CachedEmbedder(first, cache).embed_documents(["a"])
    assert first.asked == ["a", "bb"]
    with VectorCache(tmp_path) as cache:
        kept = CachedEmbedder(second, cache)
        await kept.documents_with_tokens(["a"])
        dense, tokens = await kept.documents_with_tokens(["bb", "a", "bb"])
    assert second.asked == ["a", "bb"], "once each"
    np.testing.assert_array_equal(dense, plain[[1, 0, 1]])
    assert [one.tolist() for one in tokens] == [[[2.0] * 3] * 2, [[1.0] * 3] * 2, [[2.0] * 3] * 2]
    assert (kept.token_space, kept.token_width, len(await kept.query_tokens("a"))) == ("counting", 3, 2)
    third = CountingTokens()
    third.token_space = "another"
    with VectorCache(tmp_path) as cache:
        await CachedEmbedder(third, cache).embed_documents(["a"])
        assert third.asked == []
        made = CachedEmbedder(third, cache)
        await made.documents_with_tokens(["a"])
    assert third.asked == ["a"]
