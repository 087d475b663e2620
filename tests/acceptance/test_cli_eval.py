"""`orion-recall eval`: a run over a small collection, its scores, and two runs compared."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orion_recall.shipped import shipped_folder
from tests.acceptance.program import Finished, Program, Running

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

TURNS = (
    ("harbour", "Ana", "The harbour crane is broken: its gearbox has cracked."),
    ("harbour", "Bo", "I have ordered a new gearbox from the yard in Bergen."),
    ("harbour", "Ana", "Good. The ferry to Askøy is late again today."),
    ("kitchen", "Cleo", "My sister Mira is allergic to walnuts."),
    ("kitchen", "Dan", "Then I will bake the cake with almonds."),
    ("kitchen", "Cleo", "She moved to Oslo in spring, by the way."),
)
# Bergen, Askøy, Mira and Oslo are named, and those who speak are names as well.
EMBEDDED = len(TURNS) + 8
QUERIES: tuple[dict[str, Any], ...] = (
    {"query": "What is wrong with the crane?", "evidence": ["harbour/1", "harbour/2"], "category": "fact"},
    {"query": "Who is late today?", "evidence": ["harbour/3"], "category": "time"},
    {"query": "What must Mira not eat?", "evidence": ["kitchen/4"], "category": "fact"},
    {"query": "What colour is the boat?", "evidence": ["kitchen/5"], "category": "trick", "scored": False},
)


@dataclass(frozen=True, slots=True)
class Collection:
    """The files, and the program with a cache of its own."""

    program: Program
    folder: Path

    @property
    def memories(self) -> Path:
        return self.folder / "memories.jsonl"

    @property
    def queries(self) -> Path:
        return self.folder / "queries.jsonl"

    def arguments(self, out: Path, *more: str) -> list[str]:
        files = ("--memories", str(self.memories), "--queries", str(self.queries), "--out", str(out))
        cache = () if "--no-cache" in more else ("--cache", str(self.folder / "cache"))
        return ["eval", "run", *files, *cache, *more]

    def run(self, name: str, *more: str) -> Finished:
        return self.program.run(*self.arguments(self.folder / name, *more))

    def trial(self, *arguments: str) -> Finished:
        """One of the commands that try many ways over the same files."""
        command, *more = arguments
        files = ("--memories", str(self.memories), "--queries", str(self.queries))
        return self.program.run("eval", command, *files, "--cache", str(self.folder / "cache"), *more)

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]


@pytest.fixture
def collection() -> Generator[Collection]:
    folder = Path(tempfile.mkdtemp(prefix="orion-eval-test-", dir="/tmp"))
    try:
        made = Collection(Program(folder), folder)
        made.memories.write_text(
            "".join(
                json.dumps(
                    {
                        "memory_id": f"{conversation}/{number}",
                        "conversation_id": conversation,
                        "session_id": f"{conversation}/s",
                        "turn_datetime": f"2026-03-01T10:0{number}:00",
                        "speaker": speaker,
                        "text": text,
                    }
                )
                + "\n"
                for number, (conversation, speaker, text) in enumerate(TURNS, 1)
            )
        )
        made.queries.write_text(
            "".join(
                json.dumps(
                    {
                        "query_id": f"q{number}",
                        "conversation_id": query["evidence"][0].partition("/")[0],
                        "query_date": "2026-03-01T12:00:00",
                        **query,
                    }
                )
                + "\n"
                for number, query in enumerate(QUERIES, 1)
            )
        )
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_run_finds_the_evidence_in_its_own_conversation_only(collection: Collection) -> None:
    done = collection.run("run.jsonl", "--profile", "deep.graph.v1", "--json")
    assert done.code == 0, done.err
    told = done.json
    assert (told["queries"], told["memories"], told["conversations"]) == (4, 6, 2)
    assert (told["vectors_embedded"], told["timeline"]) == (EMBEDDED, False)
    assert 1 <= told["unsure"] < 4, "the trick, and whatever else the weights leave unsure"
    assert {"vector", "lexical", "rdf"} <= set(told["source_ms"])
    for took in (told["query_ms"], *told["source_ms"].values()):
        assert 0 < took["p50"] <= took["p95"] <= took["p99"]
    lines = collection.lines("run.jsonl")
    assert [line["query_id"] for line in lines] == ["q1", "q2", "q3", "q4"]
    for line, query in zip(lines, QUERIES, strict=True):
        conversation = query["evidence"][0].partition("/")[0]
        assert {name.partition("/")[0] for name in line["ranked"]} == {conversation}
        assert line["selected"], "what is nearest, where nothing answers"
        assert set(line["selected"]) <= set(line["ranked"])
        assert len(line["selected_tokens"]) == len(line["selected"])
        assert line["tokens"] <= sum(line["selected_tokens"]) <= 320
        assert line["profile"] == "deep.graph.v1"
    assert lines[0]["ranked"][0] == "harbour/1"
    assert lines[2]["ranked"][0] == "kitchen/4"


def test_a_second_run_embeds_nothing_again_and_is_the_same_byte_by_byte(collection: Collection) -> None:
    assert collection.run("one.jsonl").code == 0
    again = collection.run("two.jsonl", "--json")
    assert (again.json["vectors_embedded"], again.json["vectors_from_cache"]) == (0, EMBEDDED)
    assert (collection.folder / "one.jsonl").read_bytes() == (collection.folder / "two.jsonl").read_bytes()
    # Other memories are others, but a text that was embedded before is not embedded again.
    collection.memories.write_text(
        collection.memories.read_text()
        + '{"memory_id": "x", "conversation_id": "kitchen", "text": "The oven is hot."}\n'
    )
    third = collection.run("three.jsonl", "--json")
    assert (third.json["vectors_embedded"], third.json["vectors_from_cache"]) == (1, EMBEDDED)
    assert sorted(path.name for path in collection.folder.glob("*.jsonl")) == [
        "memories.jsonl",
        "one.jsonl",
        "queries.jsonl",
        "three.jsonl",
        "two.jsonl",
    ]


def test_a_run_is_scored_and_compared_with_another(collection: Collection) -> None:
    profile = collection.folder / "narrow.v1.yaml"
    shipped = (shipped_folder("profiles") / "reflect.v1.yaml").read_text()
    profile.write_text(
        shipped.replace("reflect.v1", "narrow.v1").replace("max_total_items: 12", "max_total_items: 1")
    )
    assert collection.run("a.jsonl", "--no-cache").code == 0
    assert not (collection.folder / "cache").exists()
    assert collection.run("b.jsonl", "--profile", str(profile)).code == 0
    a, b, queries = (str(collection.folder / name) for name in ("a.jsonl", "b.jsonl", "queries.jsonl"))
    scored = collection.program.run("eval", "score", a, "--queries", queries, "--k", "1,3", "--json").json
    assert (scored["overall"]["queries"], scored["missing"]) == (3, 0)
    assert list(scored["by_category"]) == ["fact", "time"]
    assert scored["overall"]["means"]["recall@3"]["mean"] == 1.0
    # One of the first query's two pieces of evidence cannot be in the first place.
    assert scored["overall"]["means"]["recall@1"]["mean"] == pytest.approx((0.5 + 1 + 1) / 3)
    shown = collection.program.run("eval", "score", a, "--queries", queries, "--k", "1")
    assert "recall@bundle" in shown.out
    gone = collection.program.run("eval", "score", a, "--queries", queries, "--plot", "recall.png")
    assert (gone.code, "--json has the numbers" in gone.err) == (2, True), gone.err
    between = collection.program.run(
        "eval", "compare", a, b, "--queries", queries, "--by", "recall@bundle", "--json"
    )
    one = between.json["measures"]["recall@bundle"]
    assert (one["a"], one["losses"], between.json["queries"]) == (1.0, 1, 3)
    assert [changed["query_id"] for changed in between.json["changed"]] == ["q1"]
    printed = collection.program.run("eval", "compare", a, b, "--queries", queries, "--by", "recall@bundle")
    assert "What is wrong with the crane?" in printed.out


def test_a_part_of_the_queries_is_no_whole_run(collection: Collection) -> None:
    assert collection.run("whole.jsonl").code == 0
    assert collection.run("part.jsonl", "--limit", "2").code == 0
    whole, part, queries = (
        str(collection.folder / name) for name in ("whole.jsonl", "part.jsonl", "queries.jsonl")
    )
    scored = collection.program.run("eval", "score", part, "--queries", queries)
    assert "1 query of 3 without a line" in scored.err
    answered = collection.program.run("eval", "score", part, "--queries", queries, "--only-answered", "--json")
    assert (answered.json["overall"]["queries"], answered.json["missing"]) == (2, 0)
    refused = collection.program.run("eval", "compare", whole, part, "--queries", queries)
    assert refused.code == 2
    assert "different queries" in refused.err
    assert "2 only in" in refused.err


def test_files_that_do_not_fit_are_named_before_anything_is_built(collection: Collection) -> None:
    good = collection.queries.read_text()
    collection.queries.write_text(good + '{"query_id": "q9", "conversation_id": "nowhere", "query": "x"}\n')
    unknown = collection.run("run.jsonl")
    assert unknown.code == 2
    assert f"{collection.queries}:5: conversation_id 'nowhere' has no memory" in unknown.err
    collection.queries.write_text(good + "not json\n")
    assert f"{collection.queries}:5: " in collection.run("run.jsonl").err
    collection.queries.write_text(good.replace("kitchen/5", "kitchen/55"))
    strange = collection.run("run.jsonl", "--json")
    assert (strange.code, strange.json["evidence_unknown"]) == (0, 1)
    collection.memories.write_text(collection.memories.read_text() + "[]\n")
    broken = collection.run("other.jsonl")
    assert broken.code == 2
    assert f"{collection.memories}:7: " in broken.err
    assert collection.run("missing/run.jsonl").code == 2
    assert collection.run("run2.jsonl", "--profile", "nobody.v1").code == 2
    run = str(collection.folder / "run.jsonl")
    assert (
        "--k" in collection.program.run("eval", "score", run, "--queries", str(collection.queries), "--k", "0").err
    )
    assert not (collection.folder / "other.jsonl").exists()


def test_an_interrupted_run_leaves_the_last_one_as_it_was(collection: Collection) -> None:
    out = collection.folder / "run.jsonl"
    out.write_text("the last one\n")
    # Enough queries that it is still asking when it is told to stop.
    lines = [json.loads(line) for line in collection.queries.read_text().splitlines()]
    collection.queries.write_text(
        "".join(json.dumps({**lines[place % 4], "query_id": f"q{place}"}) + "\n" for place in range(20_000))
    )

    def parts() -> list[Path]:
        return [path for path in collection.folder.glob(".run.jsonl.*.part") if path.stat().st_size]

    with collection.program.started(*collection.arguments(out)) as running:
        asking(running, parts)
        running.signal(signal.SIGINT)
        assert running.end().code == 130
    assert out.read_text() == "the last one\n"
    assert list(collection.folder.glob(".run.jsonl.*")) == []


def asking(running: Running, parts: Any) -> None:
    running.wait_until(lambda: bool(parts()), "its first lines")


def test_a_timeline_that_does_not_answer_makes_the_run_a_failure(collection: Collection) -> None:
    away = collection.program.with_settings(ORION_POSTGRES_DSN=f"postgresql:///x?host={collection.folder}/none")
    done = away.run(*collection.arguments(collection.folder / "run.jsonl", "--json", "--limit", "1"))
    assert done.code == 1, done.err
    assert list(done.json["silent"]) == ["sql_timeline"]
    assert [line["outcome"] for line in collection.lines("run.jsonl")] == ["degraded"]


def test_weights_are_learned_into_a_profile_that_can_be_used(collection: Collection) -> None:
    out = collection.folder / "tuned.v1.yaml"
    learn = ("tune", "--profile", "assist.light.v1", "--out", str(out), "--k", "1,3", "--even-if-worse", "--json")
    tuned = collection.trial(*learn).json
    assert list(tuned["folds"]) == ["harbour", "kitchen"]
    assert max(tuned["weights"].values()) == 1.0
    assert [one["name"] for one in tuned["figures"]][1:3] == ["assist.light.v1", "learned, held out"]
    assert tuned["figures"][0]["scores"]["queries"] == 3
    checked = collection.program.run("profiles", "check", str(out), "--json").json
    assert checked["profiles"] == ["tuned.v1"]
    assert collection.run("run.jsonl", "--profile", str(out)).code == 0
    refused = collection.trial("tune", "--parts", "fusion,speling")
    assert refused.code == 2
    assert "'speling' is not a part that is learned" in refused.err


def test_values_and_parts_are_tried_and_the_worst_queries_shown(collection: Collection) -> None:
    swept = collection.trial("sweep", "--set", "rank_pool=10,20", "--set", "ranking.speaker=0,1", "--json").json
    assert len(swept["points"]) == 5
    former = collection.trial("ablate", "--k", "1")
    assert (former.code, "`eval sweep --set KEY=0`" in former.err) == (2, True), former.err
    assert collection.run("run.jsonl", "--baseline", "like").code == 0
    assert collection.lines("run.jsonl")[1]["ranked"] == ["harbour/3"]
    files = ("--queries", str(collection.queries), "--memories", str(collection.memories))
    score = ("eval", "score", str(collection.folder / "run.jsonl"), *files, "--by", "recall@1", "--worst", "2")
    worst = collection.program.run(*score, "--json").json["worst"]
    assert [one["query_id"] for one in worst["queries"]] == ["q1", "q3"][: len(worst["queries"])]
    assert worst["queries"][0]["ranks"].keys() == {"harbour/1", "harbour/2"}
    assert "semantic_gap: 1 query" in collection.program.run(*score).err
    refused = collection.trial("sweep", "--set", "fusion.q=1")
    assert (refused.code, "'fusion.q' is no key of a profile" in refused.err) == (2, True), refused.err
