"""Variants of a profile: with other values of its keys, and ablations without a source or a score part."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from orion_recall.contracts import describe
from orion_recall.errors import SettingsError
from orion_recall.profile import KeyPath, Profile, profile_fields
from orion_recall.profile.cascade import LAYER_NAMES
from orion_recall.profile.problems import nearest_path
from orion_recall.profile.sections import RankingWeights
from orion_recall.text.keyword_weights import keyword_weights_of
from orion_recall.values import SOURCE_NAMES, SourceName

Value = str | int | float | bool | None
Point = Mapping[str, Value]
"""One point of a grid: values by dotted key."""

KEYWORD_KEYS = ("bm25.k1", "bm25.b", "bm25.length")
"""Constants of the keyword index, not of a profile: term saturation, length normalisation, mean length in terms."""
MOST_POINTS = 1000
_SAME_DECAY = {
    "time_decay_half_life_hours": "time_decay_lambda_per_hour",
    "time_decay_lambda_per_hour": "time_decay_half_life_hours",
}


def grid_of(given: Sequence[str]) -> list[Point]:
    """Every combination of `key=value,value` lines. SettingsError for an invalid line, or too many combinations."""
    axes: dict[str, list[Value]] = {}
    for text in given:
        key, equals, values = text.partition("=")
        key = key.strip()
        if not equals or not values.strip():
            raise SettingsError(f"--set: {text!r} is no key=value,value, such as fusion.k=10,60")
        if key in axes:
            raise SettingsError(f"--set: {key} is given twice")
        _check_key(key)
        axes[key] = [_value(key, part) for part in values.split(",")]
    points: list[Point] = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    if not axes or len(points) > MOST_POINTS:
        raise SettingsError(f"--set: a grid has 1 to {MOST_POINTS} points, this has {len(points) if axes else 0}")
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
    """The point as on the command line."""
    return " ".join(f"{key}={'null' if value is None else value}" for key, value in point.items())


def with_sources(profile: Profile, sources: Sequence[SourceName]) -> Profile:
    """The profile with only these of its sources on."""
    top_k: dict[SourceName, tuple[str, int]] = {
        "vector": ("vector_top_k", profile.vector_top_k),
        "lexical": ("lexical_top_k", profile.effective_lexical_top_k),
        "rdf": ("rdf_top_k", profile.rdf_top_k),
        "sql_timeline": ("sql_top_k", profile.sql_top_k),
    }
    return profile.model_copy(update={key: k if name in sources else 0 for name, (key, k) in top_k.items()})


def with_parts(profile: Profile, parts: Sequence[str]) -> Profile:
    """The profile with only the weights of these score parts; all others are 0."""
    given: dict[str, float] = profile.ranking.model_dump()
    weights: dict[str, float] = {name: weight if name in parts else 0.0 for name, weight in given.items()}
    differing = profile.ranking_with_assistant
    left_out = dict.fromkeys(differing.model_fields_set.difference(parts), 0.0)
    # Not validated: an ablation may have weights that a profile must not have.
    return profile.model_copy(
        update={
            "ranking": RankingWeights.model_construct(None, **weights),
            "ranking_with_assistant": differing.model_copy(update=left_out),
        }
    )


def parts_on(profile: Profile) -> list[str]:
    """The score parts with a weight above 0 in the profile, whoever talks."""
    weights: dict[str, float] = profile.ranking.model_dump()
    others: dict[str, float] = profile.ranking_of(with_assistant=True).model_dump()
    return [name for name, weight in weights.items() if weight > 0 or others[name] > 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """A profile to try, and the sources that it may search."""

    profile: Profile
    sources: Sequence[SourceName]


def ablations(profile: Profile, sources: Sequence[SourceName]) -> dict[str, Ablation]:
    """Ablations by name: the profile without each source and each part, and with a single source or part.

    `sources` are the available ones. A single part is tried together with `fusion`.
    """
    searched = searched_by(profile)
    on: list[SourceName] = [name for name in SOURCE_NAMES if name in searched and name in sources]
    parts = parts_on(profile)
    variants: dict[str, Ablation] = {}

    def of_sources(left: Sequence[SourceName]) -> Ablation:
        if profile.cascade.enabled:  # its layers search what they name, whatever the profile has on
            return Ablation(profile=profile, sources=left)
        return Ablation(profile=with_sources(profile, left), sources=sources)

    def of_parts(*names: str) -> Ablation:
        return Ablation(profile=with_parts(profile, names), sources=sources)

    if len(on) > 1:
        for name in on:
            others: list[SourceName] = [other for other in on if other != name]
            variants[f"without source {name}"] = of_sources(others)
        for name in on:
            variants[f"source {name} alone"] = of_sources([name])

    for name in parts:
        variants[f"without part {name}"] = of_parts(*(other for other in parts if other != name))
    if "fusion" in parts:
        variants["part fusion alone"] = of_parts("fusion")
        for name in parts:
            if name != "fusion":
                variants[f"parts fusion and {name}"] = of_parts("fusion", name)
    return variants


def searched_by(profile: Profile) -> frozenset[SourceName]:
    """The sources that the profile has on, and those of its cascade's layers."""
    layers = [profile.cascade.layers.named(name) for name in LAYER_NAMES] if profile.cascade.enabled else []
    return frozenset(profile.sources_on).union(*(layer.sources for layer in layers))


def _check_key(key: str) -> None:
    path: KeyPath = tuple(key.split("."))
    fields = profile_fields(with_overrides=True)
    if key in KEYWORD_KEYS or (path in fields and not any(other[:-1] == path for other in fields)):
        return
    nearest = nearest_path(path[:-1], path[-1])
    hint = (
        f"; did you mean {'.'.join(nearest)}?"
        if nearest
        else f"; beside a profile's keys: {', '.join(KEYWORD_KEYS)}"
    )
    raise SettingsError(f"--set: {key!r} is no key of a profile that has a value{hint}")


def _value(key: str, text: str) -> Value:
    try:
        value: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"--set: {key}: {text!r} is no value") from error
    if value is None or isinstance(value, str | int | float | bool):
        if key in KEYWORD_KEYS:
            try:
                keyword_weights_of(f"{key.removeprefix('bm25.')}={text}")
            except ValueError as error:
                raise SettingsError(f"--set: {key}: {error}") from error
        return value
    raise SettingsError(f"--set: {key}: {text!r} is no single value")
