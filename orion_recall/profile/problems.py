"""Error texts for a profile: what is wrong with a key or a value, and what to write instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import get_origin

import yaml
from pydantic_core import ErrorDetails

from orion_recall.profile.cascade import LAYER_NAMES
from orion_recall.profile.model import KeyPath, profile_fields
from orion_recall.profile.yaml_nodes import Words, is_null, shown

_OWN_FIELDS = profile_fields()
_FIELDS = profile_fields(with_overrides=True)
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def _keys_by_parent() -> dict[KeyPath, tuple[str, ...]]:
    found: dict[KeyPath, list[str]] = {}
    for path in _FIELDS:
        found.setdefault(path[:-1], []).append(path[-1])
    return {parent: tuple(keys) for parent, keys in found.items()}


_KEYS = _keys_by_parent()

FORMER_KEYS: Mapping[str, str] = {
    "succession": "only stated successors count: write `superseded: mark`, `omit` (for `outdated: drop`) or `keep`",
    "ranking_with_assistant": "`ranking` holds everywhere: leave it out",
    "time.past_factor": "a time that is over decides by itself where many memories fit alike: leave it out",
    **{
        f"cascade.layers.{name}.profile": "a layer is searched by the query's own profile: leave it out"
        for name in LAYER_NAMES
    },
    "near_duplicate_similarity": "only equal texts count as the same memory: leave it out",
    "expansion.feedback_documents": "no second search is made with words of what was found first: leave it out",
    "expansion.feedback_terms": "no second search is made with words of what was found first: leave it out",
    "expansion.feedback_weight": "no second search is made with words of what was found first: leave it out",
    "graph.conversation": "the walk over conversations is gone: leave it out",
    "ranking.conversation": "the walk over conversations is gone; `neighbour` and `session` weigh what is around",
    "ranking.introduces": "it is no part of the score any more: leave it out",
    "ranking.tells_name": "it is no part of the score any more: leave it out",
    "ranking.tells_number": "it is no part of the score any more: leave it out",
    "ranking.length": "it is no part of the score any more: leave it out",
    **dict.fromkeys(
        ("canary.steps", "canary.step_minutes", "canary.min_queries", "canary.gates"),
        "a canary answers a fixed `share`: raise it, or leave `canary` out, as `decisions compare` shows",
    ),
    "ranking.no_chatter": "chatter comes last in recaps only: leave it out",
}
"""Keys that profiles once had, and what took their place."""


def keys_under(parent: KeyPath) -> tuple[str, ...]:
    """The keys that a mapping may hold, in the model's order."""
    return _KEYS.get(parent, ())


def dotted(path: KeyPath) -> str:
    """The path as people write it: fusion.weights.rdf."""
    return ".".join(path)


def unknown_key(parent: KeyPath, key: str) -> Words:
    """The words for a key that `parent` does not have: where it belongs, or the nearest key."""
    if not key:
        return "a key is missing before the colon", ""
    without_strategy = parent[2:] if parent[:1] == ("strategies",) else parent
    if (instead := FORMER_KEYS.get(dotted((*without_strategy, key)))) is not None:
        return "is no key any more", instead
    owners = [path for path in _OWN_FIELDS if path[-1] == key or dotted(path) == key]
    if owners:
        return "is not a key here", " or ".join(_belongs(path) for path in owners)
    return "is not a known key", _nearest_key(parent, key)


def nearest_path(parent: KeyPath, key: str) -> KeyPath | None:
    """The valid key that an unknown one most likely stands for."""
    spelled = key.lower().replace("-", "_")
    for candidates in (
        [path for path in _FIELDS if path[:-1] == parent],
        [path for path in _OWN_FIELDS if path[:-1] != parent],
    ):
        names = {path[-1]: path for path in candidates}
        near = difflib.get_close_matches(spelled, names, n=1, cutoff=0.6)
        if near:
            return names[near[0]]
    return None


def _nearest_key(parent: KeyPath, key: str) -> str:
    near = nearest_path(parent, key)
    if near is None:
        known = _listed(keys_under(parent)) if parent else "explained in profiles/example.yaml"
        return f"the keys {_place(parent)} are {known}"
    where = "" if near[:-1] == parent else f" {_place(near[:-1])}"
    return f"did you mean `{near[-1]}`{where}?"


def _belongs(path: KeyPath) -> str:
    return f"`{path[-1]}` belongs {_place(path[:-1])}"


def _place(parent: KeyPath) -> str:
    return f"under `{dotted(parent)}`" if parent else "at the top level"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def missing_key(path: KeyPath) -> Words:
    """The words for a key that has no default and was not given."""
    return "is missing", f"add it: {_FIELDS[path].description}"


def takes_list(path: KeyPath) -> bool:
    """Whether the key takes a list of values."""
    return get_origin(_FIELDS[path].annotation) is tuple


def wrong_shape(path: KeyPath, node: yaml.Node) -> Words:
    """The words for a list, or for keys where one value belongs, or for a value where keys belong."""
    below = keys_under(path)
    if below:
        what = "has nothing under it" if is_null(node) else "needs keys under it, not a value or a list"
        return what, f"its keys are {_listed(below)}"
    if takes_list(path):
        what = "a list in it" if isinstance(node, yaml.SequenceNode) else "keys under it"
        return f"takes a list of values, not {what}", "write [one, another]"
    return f"takes one value, not {'a list' if isinstance(node, yaml.SequenceNode) else 'keys under it'}", ""


def wrong_value(path: KeyPath, error: ErrorDetails, node: yaml.ScalarNode) -> Words:
    """The words for a value that the model refuses."""
    if is_null(node):
        give = "give one" if _FIELDS[path].is_required() else "give one, or leave the line out"
        return "has no value", f"{give}: {_FIELDS[path].description}"
    kind, text = error["type"], shown(node.value)
    if kind in ("int_type", "float_type"):
        wanted = "a whole number" if kind == "int_type" else "a number"
        return (
            f"{text} is not {wanted}",
            f"write plain digits, without quotes or units: {_FIELDS[path].description}",
        )
    if kind == "tuple_type":
        return f"{text} is one value, not a list", f"write [{node.value}]"
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"{text} is out of range", f"it must be {words} {error.get('ctx', {})[bound]:g}"
    if kind == "finite_number":
        return f"{text} is not a finite number", ""
    if kind == "bool_type":
        return f"{text} is neither true nor false", "write true or false, without quotes"
    if kind == "string_type":
        return f"{text} is not text to YAML", f'put it in quotes: "{node.value}"'
    if kind == "literal_error":
        return f"{text} is not one of the choices", _choice(str(error.get("ctx", {})["expected"]), node.value)
    if kind == "string_pattern_mismatch":
        return f"{text} is not a name", (
            "use 1 to 64 of: lower-case letters, digits, `.`, `_`, `-`; begin with a letter or digit"
        )
    return error["msg"], ""


def _choice(expected: str, value: str) -> str:
    choices = re.findall(r"'([^']*)'", expected)
    near = difflib.get_close_matches(value.lower().replace("-", "_"), choices, n=1)
    return f"did you mean `{near[0]}`?" if near else f"choose {' or '.join(f'`{c}`' for c in choices)}"
