"""The registry of retrieval sources: the four built in, and those of other packages.

A package adds one by an entry point of the group `orion_recall.sources` that leads to a `SourceSpec` of its name.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

from pydantic import BaseModel

from orion_recall.packages import NAME, Loaded, PackageSettings, Registry, SpecError, problem_of_name
from orion_recall.values import LAYER_NAMES, Hit, LayerName, SearchRequest, SourceName

_MODELS = ("rerank", "late")  # decisions show these models beside the sources
_OF_SECTIONS = ("follows",)
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")  # it stands in a bullet's brackets
MOST_TOP_K, MOST_WEIGHT = 1000, 100
"""The highest values of a profile's keys of hits and of weights; the lowest are 0."""


class Source(Protocol):
    """A retrieval source: it turns a request into hits, best first.

    `search` raises TransientSourceError when another try may help, SourceError when it will not. A source that
    cannot apply a part of `request.scope` raises ScopeNotKept: filters fail closed.
    """

    @property
    def name(self) -> SourceName: ...

    async def search(self, request: SearchRequest) -> Sequence[Hit]: ...


OpenSource = Callable[[PackageSettings], AbstractAsyncContextManager[Source]]
CheckSource = Callable[[Any], Awaitable[str]]  # of what its own `open` gives


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """One retrieval source, as profiles, bundles, explanations and `doctor` know it.

    `label` stands for it in a bullet, `title` in the description of its profile keys, `found_by` and `found_in` in
    explanations: found 1st `by words`, `words 1`. `weight` and `top_k` are the defaults of its keys
    `fusion.weights.NAME` and `NAME_top_k`; with 0 hits it is searched where a profile says so only. `layers` are
    the layers of a cascade that search it by default, beside those that search all sources. `source_ref` is the
    origin of its hits where neither hit nor memory has one.

    `open` opens it for a worker: an async context manager, which closes it. Whatever it raises, the source then is
    not there, and says why. `check` says in a line what `doctor` shows of the open source; SourceError when it
    cannot be used. The built-in ones have neither: they are opened together (`serving.backends`).

    SpecError, a ValueError, for a name, label, text, layer or number that cannot be.
    """

    name: SourceName
    label: str
    title: str
    found_by: str
    found_in: str
    source_ref: str
    weight: float = 0.5
    top_k: int = 0
    layers: tuple[LayerName, ...] = ()
    open: OpenSource | None = None
    check: CheckSource | None = None

    def __post_init__(self) -> None:
        for field in ("name", "label", "title", "found_by", "found_in", "source_ref"):
            if not isinstance(getattr(self, field), str):
                raise SpecError(f"{field} is no text")
        if not NAME.fullmatch(self.name):
            raise SpecError(f"the name {self.name!r} is not lower-case letters, digits and _, 32 at most")
        if not _LABEL.fullmatch(self.label):
            raise SpecError(f"the label {self.label!r} is not letters, digits, _, . and -, 32 at most")
        if unknown := [name for name in self.layers if name not in LAYER_NAMES]:
            raise SpecError(f"{unknown[0]!r} is no layer: there are {', '.join(LAYER_NAMES)}")
        if not is_weight(self.weight) or type(self.top_k) is not int or not 0 <= self.top_k <= MOST_TOP_K:
            raise SpecError(
                f"weight is a number from 0 to {MOST_WEIGHT:g}, top_k a whole one from 0 to {MOST_TOP_K}"
            )

    @property
    def top_k_key(self) -> str:
        """The profile's key of how many hits it may bring."""
        return top_k_key(self.name)


def is_weight(value: object) -> bool:
    """Whether it can be the default weight of a source or a score part."""
    return type(value) in (int, float) and 0 <= cast("float", value) <= MOST_WEIGHT


def top_k_key(name: SourceName) -> str:
    """The profile's key of how many hits a source may bring. That of the timeline is older than its name."""
    return "sql_top_k" if name == "sql_timeline" else f"{name}_top_k"


_TEXT_LAYERS: tuple[LayerName, ...] = ("episodic", "procedural", "prospective", "planning")
# Name, title, found_by, found_in, source_ref, weight, top_k and layers; the name is the label.
_BUILT_IN: tuple[tuple[SourceName, str, str, str, str, float, int, tuple[LayerName, ...]], ...] = (
    ("vector", "the vector source", "by meaning", "meaning", "index", 1.0, 0, _TEXT_LAYERS),
    ("lexical", "the keyword source", "by words", "words", "index", 1.0, 0, _TEXT_LAYERS),
    ("rdf", "the graph source", "in the graph", "graph", "graph", 0.5, 0, ("graph",)),
    ("sql_timeline", "the SQL timeline", "in the timeline", "timeline", "collapse_mirror", 0.5, 8, ("episodic",)),
)
BUILT_IN: tuple[SourceSpec, ...] = tuple(
    SourceSpec(
        name=name,
        label=name,
        title=title,
        found_by=by,
        found_in=within,
        source_ref=ref,
        weight=weight,
        top_k=top_k,
        layers=layers,
    )
    for name, title, by, within, ref, weight, top_k, layers in _BUILT_IN
)
BUILT_IN_NAMES: frozenset[SourceName] = frozenset(spec.name for spec in BUILT_IN)


def is_of_models(name: str) -> bool:
    """Whether the name would hide what the models of profiles have, as `copy` and all that begins with `model_`."""
    return name.startswith("model_") or hasattr(BaseModel, name) or name in _OF_SECTIONS


def problem_of_key(name: str) -> str | None:
    """What is wrong with a name that becomes a key of profiles."""
    return f"{name!r} is a word of profiles: take another name" if is_of_models(name) else None


def _problem(one: Loaded) -> str | None:
    spec = one.value
    if not isinstance(spec, SourceSpec):
        return problem_of_key(one.name) or f"it leads to a {type(spec).__name__}, not to a SourceSpec"
    unopened = None if spec.open is not None else "it does not say how it is opened: set `open`"
    return problem_of_key(one.name) or problem_of_name(one, spec.name, "source") or unopened


def _taken() -> Sequence[str]:
    keys = [spec.top_k_key.removesuffix("_top_k") for spec in BUILT_IN]
    return [*BUILT_IN_NAMES, *keys, *_MODELS]


FURTHER_SOURCES = Registry("orion_recall.sources", _problem, _taken)


@cache
def further_sources() -> tuple[SourceSpec, ...]:
    """The sources of other packages, by name."""
    return tuple(one.value for one in FURTHER_SOURCES.used)


@cache
def specs() -> tuple[SourceSpec, ...]:
    """Every source: the built-in ones in their order, then those of other packages by name."""
    return (*BUILT_IN, *further_sources())


@cache
def source_names() -> tuple[SourceName, ...]:
    """The names of `specs()`, in that order."""
    return tuple(spec.name for spec in specs())


@cache
def by_name() -> Mapping[SourceName, SourceSpec]:
    """The sources by name, in the order of `specs()`."""
    return {spec.name: spec for spec in specs()}
