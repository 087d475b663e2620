from __future__ import annotations

import re

from orion_recall.profile import profile_fields
from orion_recall.profile.reference import profile_markdown

ROWS = {
    key: (default, takes, words)
    for key, default, takes, words in re.findall(
        r"^- `([A-Za-z_.]+)` \((.+?); (.+?)\): (.+)$", profile_markdown(), re.MULTILINE
    )
}


def test_every_key_has_a_row_and_every_section_the_rows_of_its_keys():
    sections = {path[:-1] for path in profile_fields()}
    single = [path for path in profile_fields() if path not in sections and path[0] != "ranking"]
    keys = [".".join(path) for path in single if path[:2] != ("cascade", "layers")]
    assert [key for key in ROWS if "LAYER" not in key] == keys
    assert "cascade.layers.LAYER.weight" in ROWS
    assert all(words.endswith(".") for _, _, words in ROWS.values())


def test_defaults_are_written_as_in_a_file():
    defaults = {key: default for key, (default, _, _) in ROWS.items()}
    assert defaults["profile"] == "**required**"
    assert (defaults["lexical_top_k"], defaults["description"]) == ("null", "''")
    assert (defaults["enable_sql_timeline"], defaults["fusion.method"]) == ("false", "rrf")
    assert defaults["strategies"] == "{}"


def test_bounds_and_choices_are_told():
    takes = {key: told for key, (_, told, _) in ROWS.items()}
    assert takes["lexical_top_k"] == takes["vector_top_k"] == "whole number from 0 to 1000"
    assert takes["time_decay_half_life_hours"] == "number above 0 to 1000000"
    assert (takes["scope"], takes["over_budget"]) == ("session, user, global", "skip, stop")
    assert (takes["time.filter"], takes["shadow.profile"], takes["strategies"]) == ("true, false", "text", "keys")
