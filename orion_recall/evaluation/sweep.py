"""Grid search by a measure: values of a profile's keys, and of the keyword index (k1, b, mean length)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml
from pydantic import ValidationError

from orion_recall.contracts import describe
from orion_recall.errors import SettingsError
from orion_recall.evaluation.measures import Figures, figures_of, judged
from orion_recall.evaluation.run_stores import Plan, Progress
from orion_recall.evaluation.trials import Run, trials
from orion_recall.profile import Profile, profile_fields
from orion_recall.profile.reading import nearest_path
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import KeywordWeights, keyword_weights_of

Point = Mapping[str, object]
"""One point of a grid: values by dotted key."""

KEYWORD_KEYS = ("bm25.k1", "bm25.b", "bm25.length")
"""Constants of the keyword index, not of a profile: term saturation, length normalisation, mean length in terms."""
MOST_POINTS = 1000
_SAME_DECAY = {
    "time_decay_half_life_hours": "time_decay_lambda_per_hour",
    "time_decay_lambda_per_hour": "time_decay_half_life_hours",
}


async def sweep(
    plan: Plan,
    points: Sequence[Point],
    settings: Settings,
    progress: Progress,
    *,
    by: str,
    depths: tuple[int, ...] = (5, 10),
) -> list[Figures]:
    """The figures of the profile as it is, then of every grid point, best first by the measure `by`.

    Points of other keyword constants are searched in an index that is filled with these.
    """
    current = plan.profile
    tried = [(name_of(point), at(current, point), _keywords_of(point)) for point in points]
    found: dict[str, Run] = {}
    kinds: list[KeywordWeights | None] = [None]
    for _, _, own in tried:
        if own not in kinds:
            kinds.append(own)
    for keywords in kinds:
        async with trials(replace(plan, keywords=keywords), settings, progress) as opened:
            if keywords is None:
                found[current.profile] = await opened.run(current, what=current.profile)
            for name, profile, own in tried:
                if own == keywords:
                    found[name] = await opened.run(profile, what=name)
    first, *rest = figures_of(found, judged(plan.queries), against=current.profile, depths=depths)
    return [first, *sorted(rest, key=lambda one: -one.scores.means[by].mean)]


def grid_of(given: Sequence[str]) -> list[Point]:
    """Every combination of `key=value,value` lines. SettingsError for an invalid line, or too many combinations."""
    axes: dict[str, list[object]] = {}
    for text in given:
        key, _, values = (part.strip() for part in text.partition("="))
        if not values or key in axes:
            raise SettingsError(f"--set: {text!r} is no key=value,value, such as fusion.k=10,60, each key once")
        path = tuple(key.split("."))
        if key not in KEYWORD_KEYS and path not in profile_fields(with_overrides=True):
            nearest = nearest_path(path[:-1], path[-1])
            hint = f"did you mean {'.'.join(nearest)}?" if nearest else f"others are {', '.join(KEYWORD_KEYS)}"
            raise SettingsError(f"--set: {key!r} is no key of a profile; {hint}")
        axes[key] = [_value(key, part) for part in values.split(",")]
    points: list[Point] = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    if not axes or len(points) > MOST_POINTS:
        raise SettingsError(f"--set: a grid has 1 to {MOST_POINTS} points, this has {len(points) if axes else 0}")
    for point in points:
        _keywords_of(point)
    return points


def at(profile: Profile, point: Point) -> Profile:
    """The profile with the point's values. SettingsError when they are not valid for a profile."""
    values: dict[str, Any] = profile.model_dump()
    for key, value in point.items():
        if key in KEYWORD_KEYS:
            continue
        *sections, name = key.split(".")
        if key in _SAME_DECAY and _SAME_DECAY[key] not in point:
            values[_SAME_DECAY[key]] = None  # the point's value counts, not the profile's of the other key
        place = values
        for section in sections:
            place = place.setdefault(section, {})  # of overrides only those are there that are set
        place[name] = value
    try:
        found = Profile.model_validate(values)
    except ValidationError as error:
        raise SettingsError(f"--set: {name_of(point)}: {describe(error)}") from error
    if "fusion.k" in point and found.fusion.method != "rrf":
        raise SettingsError(
            f"--set: fusion.k is read by fusion.method: rrf alone, and {profile.profile} fuses by"
            f" {found.fusion.method}: add --set fusion.method=rrf"
        )
    return found


def name_of(point: Point) -> str:
    return " ".join(f"{key}={'null' if value is None else value}" for key, value in point.items())


def _value(key: str, text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"--set: {key}: {text!r} is no value") from error


def _keywords_of(point: Point) -> KeywordWeights | None:
    """The constants of the keyword index that the point names; None where it names none."""
    told = ",".join(f"{key.removeprefix('bm25.')}={point[key]}" for key in KEYWORD_KEYS if key in point)
    if not told:
        return None
    try:
        found = keyword_weights_of(told)
    except ValueError as error:
        raise SettingsError(f"--set: {told}: {error}") from error
    assert isinstance(found, KeywordWeights)
    return found
