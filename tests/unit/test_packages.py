"""What other packages add by entry points: what is found, and what is refused and why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orion_recall.profile.sections import FusionWeights, RankingWeights
from orion_recall.scoring.parts import parts
from orion_recall.source_specs import (
    BUILT_IN,
    SourceSpec,
    by_name,
    further_sources,
    is_of_models,
    source_names,
    specs,
)

ROOT = Path(__file__).parents[2]
SPEC: Mapping[str, Any] = {
    "name": "notes",
    "label": "notes",
    "title": "the notes",
    "found_by": "in the notes",
    "found_in": "notes",
    "source_ref": "notes",
}
MODULE = """
from orion_recall.scoring.parts import ScorePart
from orion_recall.source_specs import SourceSpec

def spec(name, **fields):
    given = dict(label=name, title=f"the {name}", found_by=f"in {name}", found_in=name, source_ref=name, open=print)
    return SourceSpec(name=name, **(given | fields))

notes = spec("notes", top_k=3, layers=("episodic",))
late, sql, vector = spec("late"), spec("sql"), spec("vector")
unopened = spec("unopened", open=None)
twice = spec("twice")
number = 7

@ScorePart("short", "'the memory is short'", "being short", weight=0.25)
def short(given):
    return [1.0 if len(memory.text) < 20 else 0.0 for memory in given.memories]

@ScorePart("fusion", "another one", "it")
def fusion(given):
    return None

@ScorePart("heavy", "too much", "it", weight=101)
def heavy(given):
    return None

def undecorated(given):
    return None
"""


def installed(folder: Path, name: str, points: str, module: str = MODULE) -> None:
    """A package as it lies in site-packages: its module, and what it says of itself."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    (folder / f"{name}.py").write_text(module)


def run(folder: Path, code: str) -> Any:
    """What a new interpreter prints, as JSON, with the packages of the folder beside those that are installed."""
    done = subprocess.run(
        [sys.executable, "-c", f"import json\n{code}"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_without_other_packages_there_are_the_four():
    assert further_sources() == () and specs() == BUILT_IN
    assert source_names() == ("vector", "lexical", "rdf", "sql_timeline") == tuple(by_name())
    assert [spec.top_k_key for spec in specs()] == ["vector_top_k", "lexical_top_k", "rdf_top_k", "sql_top_k"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "Notes"}, "lower-case"),
        ({"name": "n" * 33}, "32 at most"),
        ({"label": "a] b"}, "label"),
        ({"layers": ("nowhere",)}, "'nowhere' is no layer: there are semantic"),
        *(({"weight": weight}, "weight is a number from 0 to 100") for weight in (101.0, True, "1", float("nan"))),
        *(({"top_k": top_k}, "top_k a whole one from 0 to 1000") for top_k in (-1, 2.5, True, 1001)),
        *(({field: None}, f"{field} is no text") for field in ("title", "found_by", "found_in", "source_ref")),
        ({"label": 7}, "label is no text"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(wrong: dict[str, Any], why: str):
    with pytest.raises(ValueError, match=why):
        SourceSpec(**{**SPEC, **wrong})


def test_what_can_be_used_is_found_and_everything_else_is_refused_with_package_and_reason(tmp_path: Path):
    own = "\n".join(f"{name} = mine:{name}" for name in "notes late sql vector unopened twice number".split())
    parts = "\n".join(f"{name} = mine:{name}" for name in "short fusion heavy undecorated".split())
    groups = f"[orion_recall.sources]\n{own}\nother = mine:notes\ngone = nowhere:spec\n"
    installed(tmp_path, "mine", f"{groups}[orion_recall.score_parts]\n{parts}\n")
    installed(tmp_path, "yours", "[orion_recall.sources]\ntwice = mine:twice\n", "")
    found = run(
        tmp_path,
        "from orion_recall.packages import every_refused\n"
        "from orion_recall.source_specs import FURTHER_SOURCES, further_sources\n"
        "from orion_recall.scoring.parts import parts, PARTS, reasons\n"
        "print(json.dumps({'sources': [one.name for one in further_sources()],"
        "'from': FURTHER_SOURCES.package_of('notes'),"
        "'parts': [one.name for one in parts()[len(PARTS):]], 'reason': reasons()['short'],"
        "'refused': list(map(str, every_refused()))}))",
    )
    assert (found["sources"], found["from"]) == (["notes"], "mine 1.0")
    assert (found["parts"], found["reason"]) == (["short"], "being short")
    source = "the entry point {!r} (orion_recall.sources) of the package {}: {}"
    part = "the entry point {!r} (orion_recall.score_parts) of the package mine 1.0: {}"
    gone = "nowhere:spec cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"
    assert sorted(found["refused"]) == sorted(
        [
            source.format("gone", "mine 1.0", gone),
            source.format("late", "mine 1.0", "'late' is built in: take another name"),
            source.format("number", "mine 1.0", "it leads to a int, not to a SourceSpec"),
            source.format("other", "mine 1.0", "it leads to the source 'notes': both need one name"),
            source.format("sql", "mine 1.0", "'sql' is built in: take another name"),
            source.format("twice", "mine 1.0", "yours 1.0 has the name 'twice' as well: uninstall one of them"),
            source.format("twice", "yours 1.0", "mine 1.0 has the name 'twice' as well: uninstall one of them"),
            source.format("unopened", "mine 1.0", "it does not say how it is opened: set `open`"),
            source.format("vector", "mine 1.0", "'vector' is built in: take another name"),
            part.format("fusion", "'fusion' is built in: take another name"),
            part.format("heavy", "its weight is no number from 0 to 100"),
            part.format("undecorated", "it leads to a function, not to a function that a ScorePart decorates"),
        ]
    )


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("raise RuntimeError('postgres://ana:secret@db')", "RuntimeError"),
        ("import sys\nsys.exit('secret')", "SystemExit"),
        ("class Abrupt(BaseException): pass\nraise Abrupt('secret')", "Abrupt"),
        ("import nothing_there", "ModuleNotFoundError: No module named 'nothing_there'"),
        (MODULE + "notes = spec('notes', top_k=2.5)", "SpecError: weight is a number from 0 to 100, top_k a whole"),
    ],
)
def test_whatever_a_package_raises_when_it_is_loaded_is_its_reason_without_foreign_text(
    tmp_path: Path, module: str, told: str
):
    installed(tmp_path, "mine", "[orion_recall.sources]\nnotes = mine:notes\n", module)
    (refused,) = run(
        tmp_path,
        "from orion_recall.source_specs import FURTHER_SOURCES\n"
        "print(json.dumps([one.why for one in FURTHER_SOURCES.refused]))",
    )
    assert refused.startswith(f"mine:notes cannot be loaded: {told}") and "secret" not in refused


def test_of_two_with_one_name_none_is_used_though_one_cannot_be_loaded(tmp_path: Path):
    for name, module in (("mine", MODULE), ("yours", "raise ImportError('away')")):
        installed(tmp_path, name, f"[orion_recall.sources]\nnotes = {name}:notes\n", module)
    found = run(
        tmp_path,
        "from orion_recall.source_specs import FURTHER_SOURCES\n"
        "told = sorted(one.why for one in FURTHER_SOURCES.refused)\n"
        "print(json.dumps([len(FURTHER_SOURCES.used), *told]))",
    )
    assert found == [
        0,
        "yours 1.0 has the name 'notes' as well: uninstall one of them",
        "yours:notes cannot be loaded: ImportError: away",
    ]


WORDS = ("model_dump", "model_config", "model_mine", "copy", "json", "schema", "dict", "follows")


def test_a_name_that_models_of_profiles_need_is_refused_and_profiles_are_read(tmp_path: Path):
    module = MODULE + "".join(
        f"s_{name} = spec({name!r})\n"
        f"@ScorePart({name!r}, 'it', 'it', weight=0.5)\ndef p_{name}(given):\n    return None\n"
        for name in WORDS
    )
    points = {"sources": "s", "score_parts": "p"}
    groups = (
        f"[orion_recall.{group}]\n" + "".join(f"{name} = mine:{letter}_{name}\n" for name in WORDS)
        for group, letter in points.items()
    )
    installed(tmp_path, "mine", "".join(groups), module)
    found = run(
        tmp_path,
        "from orion_recall.profile.reading import parse_profile\n"
        "from orion_recall.packages import every_refused\n"
        f"parse_profile({PROFILE!r}).content_hash\n"
        "print(json.dumps([one.why for one in every_refused()]))",
    )
    assert found == [f"{name!r} is a word of profiles: take another name" for name in sorted(WORDS)] * 2


def test_no_other_word_of_the_sections_can_be_hidden_by_a_name():
    made = {*source_names(), *(part.name for part in parts())}
    words = {name for one in (FusionWeights, RankingWeights) for name in dir(one) if not name.startswith("_")}
    assert [name for name in words - made if not is_of_models(name)] == []


PROFILE = """
profile: mine.v1
vector_top_k: 4
rdf_top_k: 0
max_per_source: 4
max_total_items: 4
render_budget_tokens: 200
"""


def test_profiles_have_their_keys_layers_and_weights(tmp_path: Path):
    points = "[orion_recall.sources]\nnotes = mine:notes\n[orion_recall.score_parts]\nshort = mine:short\n"
    installed(tmp_path, "mine", points)
    found = run(
        tmp_path,
        "from orion_recall.profile.reading import parse_profile\n"
        f"text = {PROFILE!r}\n"
        "on, off = parse_profile(text), parse_profile(text + 'notes_top_k: 0\\nranking: {short: 0}\\n')\n"
        "strategy = parse_profile(text + 'notes_top_k: 0\\nstrategies: {temporal: {notes_top_k: 2}}\\n')\n"
        "print(json.dumps({'on': on.sources_on, 'top_k': on.top_k('notes'), 'off': off.sources_on,"
        "'temporal': strategy.for_class('temporal').sources_on, 'weight': on.fusion.weights.notes,"
        "'part': on.weights(reranked=False)['short'], 'episodic': on.cascade.layers.episodic.sources,"
        "'layer': on.searching(['notes', 'rdf'], 9).sources_on,"
        "'closed': off.searching(['notes', 'rdf'], 9).sources_on,"
        "'hashes': [on.content_hash, off.content_hash, strategy.content_hash]}))",
    )
    assert found["on"] == ["vector", "lexical", "notes"] and found["top_k"] == 3
    assert found["off"] == ["vector", "lexical"]
    assert found["temporal"] == ["vector", "lexical", "notes"]
    assert (found["weight"], found["part"]) == (0.5, 0.25)
    assert found["episodic"] == ["vector", "lexical", "sql_timeline", "notes"]
    assert (found["layer"], found["closed"]) == (["rdf", "notes"], ["rdf"])
    of_here = run(
        tmp_path / "nothing",
        "from orion_recall.profile.reading import parse_profile\n"
        f"print(json.dumps(parse_profile({PROFILE!r}).content_hash))",
    )
    on, off, strategy = found["hashes"]
    assert off == of_here and len({on, off, strategy}) == 3


def test_a_layer_of_a_source_that_is_off_is_refused(tmp_path: Path):
    installed(tmp_path, "mine", "[orion_recall.sources]\nnotes = mine:notes\n")
    layer = "cascade: {enabled: true, layers: {graph: {sources: [notes]}}}\n"
    told = run(
        tmp_path,
        "from orion_recall.errors import ProfileError\n"
        "from orion_recall.profile.reading import parse_profile\n"
        f"text = {PROFILE + layer!r}\n"
        "parse_profile(text)\n"
        "try:\n    parse_profile(text + 'notes_top_k: 0\\n')\n"
        "except ProfileError as error:\n    print(json.dumps(str(error)))",
    )
    assert "every source of the layer graph is off in this profile" in told


def test_a_layer_that_names_a_source_which_is_refused_gets_the_reason(tmp_path: Path):
    installed(tmp_path, "mine", "[orion_recall.sources]\ngone = nowhere:spec\n")
    layer = "cascade: {enabled: true, layers: {graph: {sources: [gone]}}}\n"
    told = run(
        tmp_path,
        "from orion_recall.errors import ProfileError\n"
        "from orion_recall.profile.reading import parse_profile\n"
        f"try:\n    parse_profile({PROFILE + layer!r})\n"
        "except ProfileError as error:\n    print(json.dumps(str(error)))",
    )
    assert "the entry point 'gone' (orion_recall.sources) of the package mine 1.0: nowhere:spec" in told


def test_a_profile_that_names_a_source_which_is_refused_gets_the_reason(tmp_path: Path):
    installed(tmp_path, "mine", "[orion_recall.sources]\ngone = nowhere:spec\n")
    told = run(
        tmp_path,
        "from orion_recall.errors import ProfileError\n"
        "from orion_recall.profile.reading import parse_profile\n"
        f"text = {PROFILE!r}\n"
        "parse_profile(text)\n"
        "try:\n    parse_profile(text + 'gone_top_k: 3\\nfusion: {weights: {gone: 1}}\\n')\n"
        "except ProfileError as error:\n    print(json.dumps(str(error)))",
    )
    assert told.count("the entry point 'gone' (orion_recall.sources) of the package mine 1.0: nowhere:spec") == 2


def test_a_client_looks_for_no_packages(tmp_path: Path):
    code = "import sys, orion_recall.client\nprint(json.dumps('orion_recall.packages' in sys.modules))"
    assert run(tmp_path, code) is False


def test_a_score_part_that_fails_is_missing_and_no_more(tmp_path: Path):
    module = f"""{MODULE}
@ScorePart("broken", "what fails", "it", made="always")
def broken(given):
    raise OSError("the text of a memory")

@ScorePart("longer", "too many", "it", made="always")
def longer(given):
    return [1.0] * 9

@ScorePart("wide", "beyond its bounds", "it", made="always")
def wide(given):
    return [7]
"""
    points = "".join(f"{name} = mine:{name}\n" for name in "broken longer wide".split())
    installed(tmp_path, "mine", f"[orion_recall.score_parts]\n{points}", module)
    found = run(
        tmp_path,
        "from orion_recall.scoring.candidates import Candidate, QueryFacts\n"
        "from orion_recall.scoring.parts import part_columns, parts\n"
        "from orion_recall.values import MemoryView\n"
        "pair = Candidate(key=1, fused=1.0), MemoryView(id='a', text='a', text_hash='a')\n"
        "weights = {part.name: 1.0 for part in parts()}\n"
        "columns = part_columns([pair], QueryFacts(now=0.0), weights, half_life_hours=1.0, recency_minimum=0.0)\n"
        "print(json.dumps({name: list(columns[name]) for name in columns}))",
    )
    assert found["wide"] == [1.0] and found["fusion"] == [1.0]
    assert "broken" not in found and "longer" not in found


def test_the_probability_of_an_answer_is_left_out_only_where_a_further_source_is_searched(tmp_path: Path):
    installed(tmp_path, "mine", "[orion_recall.sources]\nnotes = mine:notes\n")
    found = run(
        tmp_path,
        "import asyncio\n"
        "from orion_recall.models.tokenizer import TokenCounter\n"
        "from orion_recall.recall.pipeline import recall\n"
        "from tests.samples.recall_fakes import *\n"
        "tokens, memory = TokenCounter(), view('m1', 'The crane turned.', ts=NOW - 60)\n"
        "async def ask(**keys):\n"
        "    arms = [FakeSource('vector', [hit('m1', 0.5)]), FakeSource('lexical'), FakeSource('notes')]\n"
        "    made = sources(tokens, arms, memory, has_external=False)\n"
        "    return (await recall(query(), profile(**keys), made, now=NOW)).confidence.probability\n"
        "graph = {'graph': {'sources': ['vector', 'lexical']}}\n"
        "cascade = {'enabled': True, 'first': 'graph', 'max_depth': 0, 'layers': graph}\n"
        "given = [{'notes_top_k': 0}, {'notes_top_k': 3}, {'notes_top_k': 3, 'cascade': cascade}]\n"
        "print(json.dumps([asyncio.run(ask(**keys)) is not None for keys in given]))",
    )
    assert found == [True, False, True]


RENDERERS = """
from orion_recall.renderers import Renderer

brief = Renderer(name="brief", shows="the day and the score", head=lambda line: f"{line.days}:\\n{line.score:.1f}")
broken = Renderer(name="broken", shows="nothing", head=lambda line: line.days / 2)
silent = Renderer(name="silent", shows="nothing", head=lambda line: " \\t")
short = Renderer(name="short", shows="less", head=lambda line: "")
number = 7
"""


def test_a_renderer_of_a_package_is_a_style_of_profiles_and_one_that_fails_is_v1(tmp_path: Path):
    names = "brief broken silent short number".split()
    points = "\n".join(f"{name} = mine:{name}" for name in names)
    installed(tmp_path, "mine", f"[orion_recall.renderers]\n{points}\ngone = nowhere:brief\n", RENDERERS)
    found = run(
        tmp_path,
        "from orion_recall.errors import ProfileError\n"
        "from orion_recall.profile.reading import parse_profile\n"
        "from orion_recall.recall.bundle.select import head\n"
        "from orion_recall.packages import every_refused\n"
        "from tests.samples.recall_fakes import scored\n"
        "def told(style):\n"
        f"    try:\n        parse_profile({PROFILE!r} + f'render: {{{{style: {{style}}}}}}\\n')\n"
        "    except ProfileError as error:\n        return str(error)\n"
        "one = scored('m1', 'The crane is repaired.')\n"
        "print(json.dumps({'lines': [head(one, style) for style in ('brief', 'broken', 'silent', 'v1')],"
        "'told': [told(style) for style in ('brief', 'gone', 'brif')],"
        "'refused': [one.why for one in every_refused()]}))",
    )
    brief, broken, silent, v1 = found["lines"]
    assert brief.startswith("- ") and brief[2:].count(":") == 1 and "\n" not in brief and brief != v1
    assert broken == silent == v1
    fine, gone, misspelt = found["told"]
    assert fine is None
    assert "the entry point 'gone' (orion_recall.renderers) of the package mine 1.0: nowhere:brief" in gone
    assert "did you mean `brief`?" in misspelt
    assert found["refused"] == [
        "nowhere:brief cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
        "it leads to a int, not to a Renderer",
        "'short' is built in: take another name",
    ]


EXTRACTORS = """
import asyncio
from contextlib import asynccontextmanager
from orion_recall.errors import SettingsError
from orion_recall.memory.extraction.extractors import ExtractorSpec
from orion_recall.memory.extraction.light import Extraction
from orion_recall.values import Statement

class Shouts:
    at_once, batch, longest_s = 0, 10 ** 9, 1.0

    async def extract(self, passages):
        word = passages[0].text
        if word == "hang":
            await asyncio.sleep(600)
        if word == "fail":
            raise RuntimeError("secret")
        names = ("Ana", "Bo", "")
        stated = [Statement(subject="ana", relation=said, object="Bo") for said in ("knows", "is\\nno relation")]
        stated.append(Statement(subject="Eve", relation="is", object="Bo"))
        found = Extraction(entities=names, statements=tuple(stated))
        return {"few": [found], "wrong": [7, 7]}.get(word, [found, found])

@asynccontextmanager
async def opened(settings):
    yield Shouts()

def unset(settings):
    raise SettingsError("set SHOUTS_URL")

def leaks(settings):
    raise RuntimeError("secret")

shouts = ExtractorSpec(name="shouts", open=opened)
unset, leaks = ExtractorSpec(name="unset", open=unset), ExtractorSpec(name="leaks", open=leaks)
number = 7
"""


def test_an_extractor_of_a_package_is_chosen_by_the_setting_and_where_it_fails_is_light(tmp_path: Path):
    names = "shouts unset leaks number".split()
    points = "\n".join(f"{name} = mine:{name}" for name in names)
    module = f"import json\n{EXTRACTORS}"
    installed(tmp_path, "mine", f"[orion_recall.extractors]\n{points}\ngone = nowhere:it\n", module)
    found = run(
        tmp_path,
        "import asyncio\n"
        "from orion_recall.errors import SettingsError\n"
        "from orion_recall.memory.extraction.extractors import open_extractors\n"
        "from orion_recall.memory.extraction.light import Passage\n"
        "from orion_recall.settings import Settings\n"
        "async def told(name):\n"
        "    try:\n        async with open_extractors(Settings.read(extractor=name)):\n            return 'open'\n"
        "    except SettingsError as error:\n        return str(error)\n"
        "async def main():\n"
        "    async with open_extractors(Settings.read(extractor='shouts')) as (light, further):\n"
        "        texts = ('Bo met Cy at the harbour on 3 May 2026.', 'few', 'wrong', 'fail', 'hang')\n"
        "        said = [await further.extract([Passage(text=text)] * 2) for text in texts]\n"
        "    return {'limits': [light.name, further.name, further.at_once, further.batch],"
        "'found': [[one.by, one.note, one.entities, len(one.times),"
        "[[edge.subject, edge.relation] for edge in one.statements]] for one, _ in said],"
        "'told': [await told(name) for name in ('unset', 'leaks', 'number', 'gone', 'nobody')]}\n"
        "found = asyncio.run(main())\n"
        "print(json.dumps(found))",
    )
    assert found["limits"] == ["light", "shouts", 1, 256]
    good, *failed = found["found"]
    assert good == ["shouts", None, ["Ana", "Bo"], 1, [["Ana", "knows"]]]
    kinds = ("ValueError", "AttributeError", "RuntimeError", "TimeoutError")
    assert [one[:2] for one in failed] == [["light", f"shouts: it failed with {kind}"] for kind in kinds]
    unset, leaks, number, gone, nobody = found["told"]
    assert unset == "ORION_EXTRACTOR=unset of the package mine 1.0: set SHOUTS_URL"
    assert "cannot be opened (RuntimeError)" in leaks and "secret" not in leaks
    assert "it leads to a int, not to an ExtractorSpec" in number
    assert "nowhere:it cannot be loaded" in gone
    assert "'nobody' is no extractor: there are light, spacy, llm, gone, leaks" in nobody
