"""Months of invented people, and what would be asked of them, judged by common sense.

`everyday_other` is a stage manager's, `everyday_third` that of a ward sister who writes short messages. Each was
written before the rules that it is held against, and others put its questions in other words, twice
(`in_other_words.jsonl`), and once in other languages. `everyday_german` and `everyday_french` are in these alone.
What is expected is what was reached, less a little.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from orion_recall.evaluation.dataset import read_queries
from orion_recall.evaluation.plan import Plan
from orion_recall.evaluation.run import run
from orion_recall.profile.watch import loaded_profiles
from orion_recall.settings import Settings

pytestmark = pytest.mark.slow  # the golden set is the quick one

DATA = Path(__file__).parents[1] / "data"
OTHER, THIRD = "everyday_other", "everyday_third"
LEAST = {
    OTHER: {"changed": 0.7, "future": 0.8, "none": 0.5, "person": 0.7, "procedure": 0.7},
    THIRD: {"recap": 0.8, "told-time": 0.8, "fact": 0.7, "none": 0.6, "preference": 0.6, "history": 0.8},
}
LEAST_OF_ALL = {OTHER: 0.73, THIRD: 0.7}
LEAST_IN_OTHER_WORDS, LEAST_IN_OTHER_LANGUAGES = 0.7, 0.48
MOST_EMPTY = 0.02
PARTIAL = ("recap", "list", "future", "history")
Passed = Mapping[str, Mapping[str, list[bool]]]


class Silent:
    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


async def answers(memories: Path, queries: Path, folder: Path) -> Mapping[str, list[str]]:
    """What is handed over for each question."""
    out = folder / "run.jsonl"
    plan = Plan(
        memories=memories,
        queries_file=queries,
        queries=read_queries(queries),
        profile=loaded_profiles(None)["reflect.v1"].profile,
        cache=None,
    )
    await run(plan, out, Settings.read(), Silent())
    return {line["query_id"]: line["selected"] for line in lines(out)}


@pytest.fixture(scope="module")
async def got() -> Mapping[str, Mapping[str, list[str]]]:
    """What was handed over for each question, by world and question."""
    found: dict[str, Mapping[str, list[str]]] = {}
    with tempfile.TemporaryDirectory(prefix="orion-everyday-", dir="/tmp") as folder:
        for world in LEAST:
            data = DATA / world
            found[world] = await answers(data / "memories.jsonl", data / "queries.jsonl", Path(folder))
    return found


@pytest.fixture(scope="module")
def passed(got: Mapping[str, Mapping[str, list[str]]]) -> Passed:
    """Whether each question passed, by world and category."""
    found: dict[str, dict[str, list[bool]]] = {}
    for world in LEAST:
        for query in lines(DATA / world / "queries.jsonl"):
            answer = passes(query, got[world][query["query_id"]])
            found.setdefault(world, {}).setdefault(query["category"], []).append(answer)
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def passes(query: Mapping[str, Any], got: Sequence[str]) -> bool:
    """Nothing where nothing answers; else all evidence (most of it where there is much), the new first."""
    if query.get("none"):
        return not got
    evidence = set(query["evidence"])
    share = len(evidence & set(got)) / len(evidence)
    if share < (0.7 if query["category"] in PARTIAL else 1.0):
        return False
    fine = evidence.union(query.get("allowed", ()))
    if query.get("outside") and sum(one in fine for one in got) < 0.7 * len(got):
        return False
    first = query.get("first")
    stale = set(query.get("stale", ()))
    before = got[: min((got.index(one) for one in first or evidence - stale if one in got), default=len(got))]
    return (not first or got[0] in first) and stale.isdisjoint(before)


@pytest.mark.parametrize(("world", "category"), [(world, one) for world in LEAST for one in LEAST[world]])
def test_everyday_questions_of_a_kind_are_answered(passed: Passed, world: str, category: str) -> None:
    answers = passed[world][category]
    assert sum(answers) / len(answers) >= LEAST[world][category]


@pytest.mark.parametrize("world", LEAST)
def test_everyday_questions_are_answered(passed: Passed, world: str) -> None:
    every = [one for each in passed[world].values() for one in each]
    assert len(every) >= 40
    assert sum(every) / len(every) >= LEAST_OF_ALL[world]


def test_hardly_any_question_that_has_an_answer_gets_none(got: Mapping[str, Mapping[str, list[str]]]) -> None:
    answerable = [
        not got[world][query["query_id"]]
        for world in LEAST
        for query in lines(DATA / world / "queries.jsonl")
        if not query.get("none")
    ]
    assert sum(answerable) / len(answerable) <= MOST_EMPTY


async def said_otherwise(name: str, folder: Path) -> list[bool]:
    """Whether each question passes that is put otherwise in these files."""
    passed: list[bool] = []
    for world in LEAST:
        judged = {query["query_id"]: query for query in lines(DATA / world / "queries.jsonl")}
        asked = [
            judged[one["query_id"]] | {"query_id": f"{one['query_id']}-{place}", "query": one["query"]}
            for place, one in enumerate(lines(DATA / world / name))
        ]
        queries = folder / f"{world}.jsonl"
        queries.write_text("".join(f"{json.dumps(one)}\n" for one in asked), "utf-8")
        got = await answers(DATA / world / "memories.jsonl", queries, folder)
        passed += [passes(one, got[one["query_id"]]) for one in asked]
    return passed


async def test_questions_in_other_words_are_answered_as_well(tmp_path: Path) -> None:
    passed = await said_otherwise("in_other_words.jsonl", tmp_path)
    assert len(passed) == 254
    assert sum(passed) / len(passed) >= LEAST_IN_OTHER_WORDS


async def test_questions_in_other_languages_find_english_memories(tmp_path: Path) -> None:
    """A third each in German, French and Spanish; .21 of them passed before they were read in English."""
    passed = await said_otherwise("in_other_languages.jsonl", tmp_path)
    assert len(passed) == 127
    assert sum(passed) / len(passed) >= LEAST_IN_OTHER_LANGUAGES


@pytest.mark.parametrize(("world", "least"), [("everyday_german", 0.6), ("everyday_french", 0.47)])
async def test_who_keeps_notes_in_another_language_is_answered_in_it(
    world: str, least: float, tmp_path: Path
) -> None:
    """.43 and .50 before questions were read in English as well."""
    asked = lines(DATA / world / "queries.jsonl")
    got = await answers(DATA / world / "memories.jsonl", DATA / world / "queries.jsonl", tmp_path)
    assert sum(passes(one, got[one["query_id"]]) for one in asked) / len(asked) >= least
