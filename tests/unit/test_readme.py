"""The README names every setting, and its code is code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from orion_recall.settings import Settings

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_every_setting_is_in_the_configuration_table_and_none_that_is_not_there() -> None:
    listed = set(re.findall(r"^\| `ORION_([A-Z_]+)` \|", README, re.MULTILINE))
    assert listed == {name.upper() for name in Settings.model_fields}


def test_every_python_example_parses() -> None:
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(examples) >= 3
    for example in examples:
        ast.parse(example)
