"""The README names every setting, and its code is code."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

import yaml

from orion_recall.profile import Profile
from orion_recall.profile.cascade import LAYER_NAMES, Layers
from orion_recall.profile.reading import load_profile
from orion_recall.schemas.settings_reference import cells, setting_rows
from orion_recall.shipped import shipped_folder

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_every_setting_is_in_the_configuration_table_and_none_that_is_not_there() -> None:
    section = README.partition("\n## Configuration\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(ORION_[A-Z_]+)` \| (.*) \| (.*) \|$", section, re.MULTILINE)
    listed = {variable: (default, meaning) for variable, default, meaning in rows}
    assert len(listed) == len(rows)
    assert listed == {row.variable: cells(row) for row in setting_rows()}


def test_every_column_of_the_decision_log_is_in_its_table_with_its_type() -> None:
    schema = files("orion_recall.decisions").joinpath("schema")
    sql = "\n".join(file.read_text("utf-8") for file in sorted(schema.iterdir(), key=lambda file: file.name))
    (body,) = re.findall(r"CREATE TABLE recall_decisions \(\n(.*?)\n\);", sql, re.DOTALL)
    created = re.findall(r"^    ([a-z_]+) +(double precision|[a-z]+)", body, re.MULTILINE)
    created += re.findall(r"ALTER TABLE recall_decisions ADD COLUMN ([a-z_]+) (double precision|[a-z]+)", sql)
    assert sql.count("ADD COLUMN") == len(re.findall("ADD COLUMN [a-z_]+ [a-z]", sql)), "and each of them is read"
    assert len(created) > 30
    table = README.partition("| column of `recall_decisions` |")[2].partition("\n\n")[0]
    told = re.findall(r"^\| (`.+`) \| ([a-z ]+) \| (.+) \|$", table, re.MULTILINE)
    listed = [(name, kind) for names, kind, _ in told for name in re.findall(r"`([a-z_]+)`", names)]
    assert sorted(listed) == sorted(created)


def test_every_part_of_the_score_is_in_its_table_with_what_it_weighs() -> None:
    table = README.partition("| part | what it is | reflect.v1 |")[2].partition("\n\n")[0]
    listed: dict[str, float] = {}
    for names, weights in re.findall(r"^\| (`.+?) \| .+ \| (.+) \|$", table, re.MULTILINE):
        listed |= dict(zip(re.findall(r"`([a-z_]+)`", names), map(float, weights.split(", ")), strict=True))
    assert listed == load_profile(shipped_folder("profiles") / "reflect.v1.yaml").ranking.model_dump()


def test_the_example_of_a_cascade_is_a_valid_profile() -> None:
    (text,) = re.findall(r"```yaml\n(cascade:.*?)```", README, re.DOTALL)
    needed = dict.fromkeys(("vector_top_k", "rdf_top_k", "max_per_source", "max_total_items"), 5)
    profile = Profile.model_validate(
        {"profile": "mine.v1", **needed, "render_budget_tokens": 256, **yaml.safe_load(text)}
    )
    assert profile.cascade.layers.graph.profile == "deep.graph.v1"


def test_the_table_of_layers_is_what_profiles_begin_with() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([0-9.]+) \| ([a-z, ]+) \|$", README, re.MULTILINE)
    told = {name: (float(weight), tuple(then.split(", "))) for name, weight, then in rows}
    assert told == {name: (Layers().named(name).weight, Layers().named(name).then) for name in LAYER_NAMES}


def test_every_picture_is_there() -> None:
    shown = re.findall(r"!\[.+?\]\((.+?)\)", README)
    assert len(shown) >= 2
    for path in shown:
        assert (Path(__file__).parents[2] / path).read_bytes().startswith(b"\x89PNG"), path


def test_every_python_example_parses() -> None:
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(examples) >= 3
    for example in examples:
        ast.parse(example)
