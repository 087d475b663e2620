"""Copies a profile file with new ranking weights and a new name; the rest stays, comments included."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from orion_recall.atomic_file import whole_text
from orion_recall.errors import EvaluationError, ProfileError
from orion_recall.profile import Profile
from orion_recall.profile.reading import load_profile
from orion_recall.profile.sections import RankingWeights
from orion_recall.profile.yaml_nodes import compose_mapping


def write_profile(source: Path, out: Path, weights: Mapping[str, float]) -> Profile:
    """The profile of `source` under the name of the file `out`, with these weights.

    Weights of 0 whose default is 0 are left out. EvaluationError when the name of `out` is not valid for a profile;
    an existing file then stays. SettingsError when the file cannot be written.
    """
    made = with_ranking(source.read_text("utf-8"), out.stem, weights)
    with tempfile.TemporaryDirectory(prefix="orion-eval-") as folder:
        trial = Path(folder, out.name)
        trial.write_text(made, "utf-8")
        try:
            profile = load_profile(trial)
        except ProfileError as error:
            why = str(error).replace(str(trial), str(out))
            raise EvaluationError(f"the profile cannot be written as {out}: {why}") from error
    with whole_text(out) as file:
        file.write(made)
    return profile


def with_ranking(text: str, name: str, weights: Mapping[str, float]) -> str:
    """The text of a profile with that name and these weights, whoever talks; missing weights are 0."""
    lines = text.splitlines(keepends=True)
    root = compose_mapping(text.encode())
    defaults: dict[str, float] = RankingWeights().model_dump()
    told = {part: weights.get(part, 0.0) for part in defaults}
    shown = ", ".join(f"{part}: {weight:g}" for part, weight in told.items() if weight or defaults[part])
    written = f"ranking: {{{shown}}}\n"
    places = {key.value: (key.start_mark.line, _last_line(value)) for key, value in root.value}
    edits = [("profile", f"profile: {name}\n"), ("ranking", written)]
    if (differences := "ranking_with_assistant") in places:
        edits.append((differences, ""))
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    at_the_end = (len(lines), len(lines) - 1)
    # From the end, so that the lines before keep their numbers.
    for key, line in sorted(edits, key=lambda edit: -places.get(edit[0], at_the_end)[0]):
        first, last = places.get(key, at_the_end)
        lines[first : last + 1] = [line]
    return "".join(lines)


def _last_line(node: yaml.Node) -> int:
    """The line that a value ends in. A block of keys ends, for YAML, where the next key begins."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return max(_last_line(value) for _, value in node.value)
    return node.end_mark.line
