"""Profile files: reading, errors that advise, watching."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orion_recall.errors import ProfileError, ProfileProblem
from orion_recall.profile import Profile
from orion_recall.profile.reading import (
    FORMER_KEYS,
    MAX_FILE_BYTES,
    dump_profile,
    load_profile,
    load_profiles,
    parse_profile,
)
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse, ProfileWatch, loaded_profiles
from orion_recall.settings import Settings
from orion_recall.values import QUERY_CLASSES

REQUIRED = {
    "profile": "test.v1",
    "vector_top_k": "12",
    "rdf_top_k": "6",
    "max_per_source": "4",
    "max_total_items": "12",
    "render_budget_tokens": "256",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "test.v1.yaml"


def written(**lines: str) -> str:
    """A valid profile with some of its lines replaced or added."""
    return "".join(f"{key}: {value}\n" for key, value in (REQUIRED | lines).items())


def problems_of(file: Path, text: str | bytes) -> list[ProfileProblem]:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ProfileError) as caught:
        load_profile(file)
    return list(caught.value.problems)


def problem_of(file: Path, text: str | bytes) -> ProfileProblem:
    problems = problems_of(file, text)
    assert len(problems) == 1, problems
    return problems[0]


def said(problem: ProfileProblem) -> str:
    return f"{problem.key}: {problem.message}; {problem.hint}"


def test_a_file_gives_its_profile(file: Path):
    file.write_text(f"# a comment\n{written()}fusion:\n  k: 10\n  weights: {{rdf: 1}}\n")
    profile = load_profile(file)
    assert (profile.profile, profile.vector_top_k) == ("test.v1", 12)
    assert (profile.fusion.k, profile.fusion.weights.rdf, profile.fusion.weights.vector) == (10, 1.0, 1.0)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("sql_since_minutes", "60*24*14", "`60*24*14`: Input should be a valid integer; write plain digits"),
        (
            "min_score",
            "'0.5'",
            "`0.5`: Input should be a valid number; write plain digits, without quotes or units: The",
        ),
        ("source_timeout_ms", "0100", "`0100` is no decimal number to YAML 1.1"),
        ("source_timeout_ms", "9" * 5000, "is no decimal number"),
        ("time_decay_half_life_hours", "1:30.5", "`1:30.5` is no decimal number"),
        ("render_budget_tokens", "5", "greater than or equal to 20; The rendered text at most"),
        ("min_score", "-.INF", "`-.INF`: Input should be a finite number"),
        ("min_score", "1.5", "`1.5`: Input should be less than or equal to 1"),
        ("enable_sql_timeline", "1", "Input should be a valid boolean"),
        ("enable_sql_timeline", "maybe", "write true or false, without quotes"),
        ("description", "no", "Input should be a valid string; put it in quotes"),
        ("scope", "Session", "`Session` is not one of the choices; did you mean `session`?"),
        ("budget", "42x", "Input should be 'low', 'mid' or 'high'"),
        ("over_budget", "", "has no value; give one, or leave the line out: For an item"),
        ("rdf_top_k", "", "has no value; give one: Hits of the graph source"),
        ("rdf_top_k", "[1]", "Input should be a valid integer; write plain digits"),
        ("rdf_top_k", "{a: 1}", "Input should be a valid integer; write plain digits"),
        ("scope", "[user]", "write one value: Whose memories"),
        ("fusion", "rrf", "needs keys under it; its keys are `method`, `k`, `weights`"),
        ("graph", "", "has nothing under it; its keys are `arm`, `hops`, `max_entities`, `max_statements`"),
        ("profile", "Test.v1", "`Test.v1`: String should match pattern"),
        ("snippet_tokens", "!!python/name:os.system", "python/name:os.system` is not allowed here: remove it"),
        ("fusion", "!!set {k}", "is not allowed here"),
        ("cascade.layers.graph.kinds", "world", "`world`: Input should be a valid list; write [one, another]"),
        ("cascade.layers.graph.kinds", "{a: 1}", "Input should be a valid list; write [one, another]"),
        ("cascade.layers.graph.kinds", "[[a]]", "Input should be a valid string"),
        ("cascade.layers.graph.then", "[semantc]", "Input should be 'semantic'"),
        ("cascade.layers.graph.kinds", "[!mine a]", "the tag `!mine` is not allowed here"),
    ],
)
def test_a_wrong_value_says_what_to_write_instead(file: Path, key: str, value: str, expected: str):
    top, *below = key.split(".")
    nested = "".join(f"{{{name}: " for name in below) + value + "}" * len(below)
    problem = problem_of(file, written(**{top: nested}))
    assert problem.key.startswith(key)
    assert expected in said(problem)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("descripton: x", "descripton: is not a known key; did you mean `description`?"),
        ("k: 10", "is not a key here; `k` belongs under `fusion`"),
        ("lexical: 1", "`lexical` belongs under `fusion.weights`"),
        ("hop: 1", "did you mean `hops` under `graph`?"),
        ("ranking: {hops: 1}", "ranking.hops: is not a key here; `hops` belongs under `graph`"),
        ("fusion: {weights: {lexcal: 1}}", "fusion.weights.lexcal: is not a known key; did you mean `lexical`?"),
        ("notes_top_k: 1", "Or is a package that adds it not installed here?"),
        ("fusion: {weights: {notes: 1}}", "Or is a package that adds it not installed here?"),
        ("ranking: {runbook: 1}", "Or is a package that adds it not installed here?"),
        ("zzz: 1", "explained in profiles/example.yaml"),
        ("? [a, b]\n: 1", "?: is not a known key"),
    ],
)
def test_an_unknown_key_is_led_to_where_it_belongs(file: Path, line: str, expected: str):
    assert expected in said(problem_of(file, f"{written()}{line}\n"))


def test_a_missing_key_is_named_with_what_it_is(file: Path):
    problem = problem_of(file, written().replace("rdf_top_k: 6\n", ""))
    assert said(problem) == (
        "rdf_top_k: is missing; add it: Hits of the graph source that are taken first; 0 switches it off."
    )


def test_a_key_given_twice_names_both_lines(file: Path):
    problem = problem_of(file, written() + "rdf_top_k: 7\n")
    assert (problem.key, problem.line) == ("rdf_top_k", 7)
    assert "in line 3 and in line 7" in problem.message


@pytest.mark.parametrize(
    ("lines", "key", "line", "words"),
    [
        ({"vector_top_k": "0", "rdf_top_k": "0"}, "vector_top_k", 2, "no source is on"),
        ({"ranking": "\n  fusion: 0.5\n  recency: 0.9"}, "ranking.recency", 9, "must not outvote relevance"),
        ({"ranking": "{fusion: 0, similarity: 0}"}, "ranking.fusion", 7, "needs a weight above 0"),
        ({"fusion": "\n  weights:\n    {vector: 0, lexical: 0, rdf: 0}"}, "fusion.weights", 8, "fusion weight 0"),
        (
            {"fusion": "{weights: {vector: 0, lexical: 0, sql_timeline: 0}}", "cascade": "{enabled: true}"},
            *("cascade.layers.episodic.sources", 8, "has the fusion weight 0"),
        ),
    ],
)
def test_a_check_across_keys_points_at_the_key_it_is_about(
    file: Path, lines: dict[str, str], key: str, line: int, words: str
):
    problem = problem_of(file, written(**lines))
    assert (problem.key, problem.line) == (key, line)
    assert words in problem.message


@pytest.mark.parametrize(
    ("strategies", "key", "line", "words"),
    [
        ("{temporary: {rank_pool: 96}}", "strategies.temporary", 7, "did you mean `temporal`"),
        ("\n  temporal:\n    rank_pool: 9", "strategies.temporal.rank_pool", 9, "greater than or equal to 10"),
        ("\n  meta:\n    rank_pool:", "strategies.meta.rank_pool", 9, "has no value"),
        ("\n  meta:\n    scope: user", "strategies.meta.scope", 9, "`scope` belongs at the top level"),
        ("\n  meta: {strategies: {}}", "strategies.meta.strategies", 8, "belongs at the top level"),
        ("\n  meta:\n    vector_top_k: 0\n    rdf_top_k: 0", "strategies.meta.vector_top_k", 9, "no source is on"),
        (
            "\n  meta:\n    vector_top_k: 0\n  list:\n    rdf_top_k: 0",
            "strategies.list.vector_top_k",
            10,
            "meta list",
        ),
        ("\n  meta:\n    ranking: {recency: 50}", "strategies.meta.ranking.recency", 9, "must not outvote"),
    ],
)
def test_what_is_wrong_with_a_strategy_is_told_with_its_line(
    file: Path, strategies: str, key: str, line: int, words: str
):
    problem = problem_of(file, written(strategies=strategies))
    assert (problem.key, problem.line) == (key, line)
    assert words in said(problem)


@pytest.mark.parametrize("section", ["shadow", "canary"])
def test_a_shadow_or_canary_is_another_profile_of_the_same_folder(tmp_path: Path, section: str):
    (tmp_path / "test.v1.yaml").write_text(written(**{section: "{profile: other.v1, share: 0.5}"}))
    with pytest.raises(ProfileError, match=rf"test.v1.yaml:7:10: `{section}.profile`: `other.v1` is no profile of"):
        load_profiles(tmp_path)
    (tmp_path / "other.v1.yaml").write_text(written(profile="other.v1"))
    assert getattr(load_profiles(tmp_path)["test.v1"], section).profile == "other.v1"
    (tmp_path / "other.v1.yaml").write_text(written(**{"profile": "other.v1", section: "{profile: other.v1}"}))
    with pytest.raises(ProfileError, match=r"`other\.v1` is this profile itself; name another one"):
        load_profiles(tmp_path)


def test_the_text_shows_file_line_column_and_the_line_with_a_caret(file: Path):
    file.write_text(written(fusion="{method: rrf, kk: 10}"))
    with pytest.raises(ProfileError) as caught:
        load_profile(file)
    first, source, caret = str(caught.value).splitlines()
    assert first == f"{file}:7:23: `fusion.kk`: is not a known key; did you mean `k`?"
    assert source == "    7 | fusion: {method: rrf, kk: 10}"
    assert caret.index("^") == source.index("kk")


def test_every_problem_of_a_file_is_reported_in_the_order_of_its_lines(file: Path):
    text = (
        written(vector_top_k='"12"', max_per_source="0")
        + "k: 1\nranking: {fusion: 0, similarity: 0}\nrank_poll: 20\n"
    )
    problems = problems_of(file, text)
    assert [(p.line, p.key) for p in problems] == [
        (2, "vector_top_k"),
        (4, "max_per_source"),
        (7, "k"),
        (8, "ranking.fusion"),
        (9, "rank_poll"),
    ]


def test_a_file_of_rubbish_is_not_reported_without_end(file: Path):
    problems = problems_of(file, "".join(f"key{n}: 1\n" for n in range(5000)))
    assert len(problems) == 51
    assert problems[-1].message == "has more problems: fix these first"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        (b"", 1, 1, "the file is empty"),
        (b"- a\n", 1, 1, "not a mapping"),
        (b"!!python/object:os.system {a: 1}\n", 1, 1, "not a mapping"),
        (b"profile: x\nfusion:\n\tk: 1\n", 3, 1, "this is not YAML"),
        (b"profile: a: b\n", 1, 11, "mapping values are not allowed"),
        (b"  profile: x\nrdf_top_k: 1\n", 2, 1, "this is not YAML"),
        (b"a: *b\n", 1, 4, "found undefined alias 'b'"),
        (b"profile: " + b"[" * 1_000, 1, 1, "this is not YAML"),
        (b"a: 1\nb: x\x00\n", 2, 5, "the control character U+0000 is not allowed"),
    ],
)
def test_what_is_not_yaml_is_reported_with_its_line(file: Path, text: bytes, line: int, column: int, words: str):
    problem = problem_of(file, text)
    assert (problem.line, problem.column) == (line, column)
    assert words in problem.message


def test_aliases_that_double_cost_nothing(file: Path):
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    assert {p.message for p in problems_of(file, written() + bomb)} == {"is not a known key"}


def test_a_file_over_the_size_limit_is_not_parsed(file: Path):
    text = written() + "#" * MAX_FILE_BYTES
    assert problem_of(file, text).message == "is larger than 64 KB: no profile is"


@pytest.mark.parametrize("unit", ["[", "{", "[{", "{a: [", "[[], ", "'[' ", "#[{\n"])
def test_a_text_of_brackets_is_not_parsed(file: Path, unit: str):
    text = written() + unit * (1001 // sum(map(unit.count, "[{")) + 1)
    assert problem_of(file, text).message == "has more than 1000 opening brackets: no profile has"


def test_a_file_named_unlike_its_profile_is_told_to_rename(tmp_path: Path):
    problem = problem_of(tmp_path / "other.yaml", written())
    assert (problem.line, problem.key) == (1, "profile")
    assert problem.hint == "rename the file to `test.v1.yaml`, or the profile to `other`"


def test_a_folder_gives_its_profiles_by_name(tmp_path: Path):
    for name, suffix in (("b.v1", "yaml"), ("a.v1", "yml")):
        (tmp_path / f"{name}.{suffix}").write_text(written(profile=name))
    (tmp_path / ".b.v1.yaml").write_text("an editor's own")
    (tmp_path / "notes.txt").write_text("not a profile")
    (tmp_path / "old.yaml").mkdir()
    assert list(load_profiles(tmp_path)) == ["a.v1", "b.v1"]


def test_two_files_with_one_profile_name_are_both_named(tmp_path: Path):
    (tmp_path / "example.yaml").write_text("# first\n" + written())
    (tmp_path / "test.v1.yaml").write_text(written())
    with pytest.raises(ProfileError) as caught:
        load_profiles(tmp_path)
    (problem,) = caught.value.problems
    assert problem.file == str(tmp_path / "test.v1.yaml")
    assert f"`test.v1` is already the profile of {tmp_path / 'example.yaml'}, line 2" in problem.message


def test_the_problems_of_all_files_of_a_folder_come_together(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(written(profile=name, rdf_top_k="x"))
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ProfileError) as caught:
        load_profiles(tmp_path)
    assert [Path(p.file).name for p in caught.value.problems] == ["a.yaml", "b.yaml", "gone.yaml"]


def in_unit() -> st.SearchStrategy[float]:
    return st.floats(0, 1)


def weights(*names: str) -> st.SearchStrategy[dict[str, float]]:
    return st.fixed_dictionaries({}, optional={name: st.floats(0, 100) for name in names})


def whole(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


NAMES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True)
PROFILES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "profile": NAMES,
        "vector_top_k": whole(0, 1000),
        "rdf_top_k": whole(0, 1000),
        "max_per_source": whole(1, 1000),
        "max_total_items": whole(1, 1000),
        "render_budget_tokens": whole(20, 1_000_000),
    },
    optional={
        "description": st.text(max_size=60),
        "scope": st.sampled_from(["session", "user", "global"]),
        "budget": st.sampled_from(["low", "mid", "high"]),
        "lexical_top_k": st.none() | whole(0, 1000),
        "enable_sql_timeline": st.booleans(),
        "time_decay_half_life_hours": st.floats(0, 1_000_000, exclude_min=True) | whole(1, 1_000_000),
        "recency_floor": in_unit(),
        "min_similarity": in_unit(),
        "over_budget": st.sampled_from(["skip", "stop"]),
        "fusion": st.fixed_dictionaries(
            {"k": whole(1, 10_000)}, optional={"weights": weights("vector", "lexical", "rdf", "sql_timeline")}
        ),
        "ranking": weights("fusion", "similarity", "neighbour", "speaker", "recency"),
        "graph": st.fixed_dictionaries({"hops": whole(1, 2), "max_entities": whole(1, 16)}),
        "strategies": st.dictionaries(
            st.sampled_from(QUERY_CLASSES),
            st.fixed_dictionaries(
                {}, optional={"rank_pool": whole(10, 500), "lexical_top_k": st.none(), "ranking": weights("time")}
            ),
        ),
    },
)


@given(values=PROFILES)
def test_a_dumped_profile_loads_to_an_equal_one_with_the_same_hash(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
):
    try:
        profile = Profile.model_validate(values)
    except ValidationError:  # outvoted relevance, or no source with a weight
        return
    path = tmp_path_factory.getbasetemp() / "example.yaml"
    path.write_text(dump_profile(profile), encoding="utf-8")
    loaded = load_profile(path)
    assert loaded == profile
    assert loaded.content_hash == profile.content_hash


def profile(name: str, **changes: object) -> Profile:
    values = {
        "profile": name, "vector_top_k": 5, "rdf_top_k": 0, "max_per_source": 5, "max_total_items": 5,
        "render_budget_tokens": 100,
    }  # fmt: skip
    return Profile.model_validate(values | changes)


def write(folder: Path, name: str, **changes: object) -> None:
    put(folder / f"{name}.yaml", dump_profile(profile(name, **changes)))


def put(file: Path, text: str) -> None:
    """The way most editors do: a new file in the place of the old one. Nobody reads half of it."""
    half = file.with_name(f".{file.name}.tmp")
    half.write_text(text, "utf-8")
    half.replace(file)


class Watch(ProfileWatch):
    """It tells how often it has read the files."""

    reads = 0

    def _read(self) -> dict[str, LoadedProfile]:
        try:
            return super()._read()
        finally:
            self.reads += 1


class Edited:
    """A folder that is watched."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        folder.mkdir(exist_ok=True)
        for name in names:
            write(folder, name)
        self.folder, self.told = folder, 0
        self.in_use = ProfilesInUse(loaded_profiles(folder))
        self.watch = Watch(self.in_use, Settings(profiles_dir=folder, default_profile="a.v1"), changed=self._note)

    def _note(self) -> None:
        self.told += 1

    async def until(self, condition: Callable[[ProfilesInUse], object]) -> None:
        async with asyncio.timeout(30):
            while not condition(self.in_use):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def watching(folder: Path, names: Sequence[str] = ("a.v1", "b.v1")) -> AsyncGenerator[Edited]:
    edited = Edited(folder, names)
    task = asyncio.create_task(edited.watch.run())
    try:
        # It reads the files once when it begins: an edit at the same time might be seen half done.
        await edited.until(lambda _: edited.watch.reads)
        yield edited
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def items(in_use: ProfilesInUse) -> int:
    return in_use.current["a.v1"].profile.max_total_items


async def test_an_edit_is_taken_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orion_recall.profiles")
    async with watching(tmp_path) as edited:
        before, held = edited.in_use.state, edited.in_use.current
        write(tmp_path, "a.v1", max_total_items=3)
        await edited.until(lambda now: items(now) == 3)
        after = edited.in_use.state
    assert held["a.v1"].profile.max_total_items == 5, "whoever has taken a version keeps it"
    assert after.version != before.version
    assert (after.error, edited.told) == (None, 1)
    assert after.version in caplog.text


async def test_a_broken_edit_is_refused_with_its_place_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.v1.yaml"
    async with watching(tmp_path) as edited:
        version, good = edited.in_use.state.version, file.read_text("utf-8")
        put(file, good.replace("max_total_items: 5", "max_total_itens: 5"))
        await edited.until(lambda now: now.state.error)
        refused = edited.in_use.state
        assert (refused.version, items(edited.in_use)) == (version, 5)
        line = good.splitlines().index("max_total_items: 5") + 1
        assert f"{file}:{line}:1: `max_total_itens`" in (refused.error or "")
        assert "max_total_items" in (refused.error or ""), "what to write instead"
        assert refused.refused_at is not None
        assert f"{file}:{line}:1" in caplog.text
        put(file, good)
        await edited.until(lambda now: now.state.error is None)
        assert edited.in_use.state.version == version


async def test_whatever_is_wrong_with_an_edit_the_last_good_profiles_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path) as edited:
        version = edited.in_use.state.version

        def fails(_: Watch) -> dict[str, LoadedProfile]:
            raise ZeroDivisionError

        with monkeypatch.context() as broken:
            broken.setattr(Watch, "_read", fails)
            edited.watch.ask()
            await edited.until(lambda now: now.state.error)
        assert edited.in_use.state.version == version
        put(tmp_path / "a.v1.yaml", (tmp_path / "a.v1.yaml").read_text("utf-8") + "# mended\n")
        await edited.until(lambda now: now.state.error is None)


async def test_without_the_default_profile_the_edit_is_refused(tmp_path: Path) -> None:
    async with watching(tmp_path) as edited:
        (tmp_path / "a.v1.yaml").unlink()
        await edited.until(lambda now: now.state.error)
        assert "the default profile 'a.v1' is not in" in (edited.in_use.state.error or "")
        assert set(edited.in_use.current) == {"a.v1", "b.v1"}
        write(tmp_path, "a.v1", max_total_items=2)
        await edited.until(lambda now: items(now) == 2)


async def test_a_mounted_folder_whose_link_is_swapped_is_an_edit(tmp_path: Path) -> None:
    """As Kubernetes does it: the files are links through `..data`, which is swapped for another one."""
    mounted = tmp_path / "mounted"
    for place, most in ((mounted / "..1", 5), (mounted / "..2", 4)):
        place.mkdir(parents=True)
        write(place, "a.v1", max_total_items=most)
    (mounted / "..data").symlink_to("..1")
    (mounted / "a.v1.yaml").symlink_to("..data/a.v1.yaml")
    async with watching(mounted, names=()) as edited:
        (mounted / "..new").symlink_to("..2")
        (mounted / "..new").rename(mounted / "..data")
        await edited.until(lambda now: items(now) == 4)


async def test_a_folder_that_goes_and_comes_back_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    async with watching(folder) as edited:
        shutil.rmtree(folder)
        await edited.until(lambda now: now.state.error)
        assert "cannot be read" in (edited.in_use.state.error or "")
        other = tmp_path / "other"
        other.mkdir()
        for name in ("a.v1", "b.v1"):
            write(other, name, max_total_items=4)
        other.rename(folder)
        await edited.until(lambda now: items(now) == 4)
        write(folder, "a.v1", max_total_items=1)
        await edited.until(lambda now: items(now) == 1)


async def test_the_shipped_profiles_are_read_again_when_asked_and_not_watched() -> None:
    shipped = loaded_profiles(None)
    in_use = ProfilesInUse({name: one for name, one in shipped.items() if name == "reflect.v1"})
    watch = ProfileWatch(in_use, Settings(default_profile="reflect.v1"), changed=lambda: None)
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(0.2)
    assert in_use.state.names == ("reflect.v1",)
    watch.ask()
    async with asyncio.timeout(30):
        while in_use.state.names != tuple(sorted(shipped)):
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("former", "instead"), FORMER_KEYS.items())
def test_a_former_key_is_refused_with_what_took_its_place(former: str, instead: str):
    *sections, key = former.split(".")
    opened = "".join(f"{'  ' * depth}{name}:\n" for depth, name in enumerate(sections))
    with pytest.raises(ProfileError) as refused:
        parse_profile(f"profile: mine.v1\n{opened}{'  ' * len(sections)}{key}: 1\n")
    assert f"`{former}`: is no key any more" in str(refused.value)
    assert instead in str(refused.value)
