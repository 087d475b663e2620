"""A profile's file with other ranking weights and another name; all else in it, comments too, stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orion_recall.errors import EvaluationError, ProfileError
from orion_recall.profile import Profile
from orion_recall.profile_yaml import load_profile
from orion_recall.yaml_nodes import compose_mapping


def write_profile(source: Path, out: Path, weights: Mapping[str, float]) -> Profile:
    """The profile of `source` under the name of the file `out`, with these weights; what was read back from there.

    Weights of 0 whose default is 0 are left out. EvaluationError when `out` cannot be written or its name is no
    profile's.
    """
    try:
        text = source.read_text("utf-8")
        made = with_ranking(text, out.stem, weights)
        out.write_text(made, "utf-8")
    except OSError as error:
        raise EvaluationError(f"{out}: {error.strerror or type(error).__name__}") from error
    try:
        return load_profile(out)
    except ProfileError as error:
        out.unlink(missing_ok=True)
        raise EvaluationError(f"the profile cannot be written as {out}: {error}") from error


def with_ranking(text: str, name: str, weights: Mapping[str, float]) -> str:
    """The text of a profile with that name and these weights."""
    lines = text.splitlines(keepends=True)
    root = compose_mapping(text.encode())
    written = f"ranking: {{{', '.join(f'{part}: {weight:g}' for part, weight in weights.items())}}}\n"
    places = {key.value: (key.start_mark.line, value.end_mark) for key, value in root.value}
    edits = [("profile", f"profile: {name}\n"), ("ranking", written)]
    # From the end, so that the lines before keep their numbers.
    for key, line in sorted(edits, key=lambda edit: -places.get(edit[0], (len(lines), None))[0]):
        first, end = places.get(key, (len(lines), None))
        last = first if end is None else end.line + (1 if end.column > 0 else 0)
        if end is None and lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines[first:last] = [line]
    return "".join(lines)
