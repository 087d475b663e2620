"""The registry of retrieval sources: the four built in, and those of other packages, by their entry points.

A package adds a source by an entry point of the group `orion_recall.sources` that leads to a `SourceSpec` of the
same name, and a score part by one of the group `orion_recall.score_parts` (`scoring.parts`). An entry point that
cannot be used is left out and kept as `Refused`, with its package and the reason: a profile that names its keys is
refused for that reason, `doctor` lists it, and everything else goes on.

The packages are looked for once in a process, when a profile's model is made. A client never comes here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast

from pydantic import BaseModel

from orion_recall.values import LAYER_NAMES, SOURCE_NAME, Hit, LayerName, SearchRequest, SourceName

Group = Literal["orion_recall.sources", "orion_recall.score_parts"]
SOURCES: Group = "orion_recall.sources"
SCORE_PARTS: Group = "orion_recall.score_parts"

_MODELS = ("rerank", "late")  # decisions show these models beside the sources
_OF_SECTIONS = ("follows",)
_NAME = re.compile(SOURCE_NAME)
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


class SourceSettings(Protocol):
    """The settings of the service that opening a source may go by. Addresses are the package's own business."""

    @property
    def data_dir(self) -> Path: ...
    @property
    def tenants(self) -> Sequence[str]: ...
    @property
    def default_tenant(self) -> str: ...


OpenSource = Callable[[SourceSettings], AbstractAsyncContextManager[Source]]
CheckSource = Callable[[Any], Awaitable[str]]  # of what its own `open` gives


class SpecError(ValueError):
    """A spec that cannot be; the text names the field."""


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
        if not _NAME.fullmatch(self.name):
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


class Loaded(NamedTuple):
    """What an entry point of a package leads to; `package` is its name and version."""

    name: str
    package: str
    value: Any


class Refused(NamedTuple):
    """An entry point that cannot be used, and why."""

    group: Group
    name: str
    package: str
    why: str

    def __str__(self) -> str:
        return f"the entry point {self.name!r} ({self.group}) of the package {self.package}: {self.why}"


@cache
def _found() -> Mapping[Group, Sequence[EntryPoint]]:
    """The entry points of both groups, from one look at what is installed."""
    each = entry_points()
    return {
        group: sorted(each.select(group=group), key=lambda point: (point.name, _package(point)))
        for group in (SOURCES, SCORE_PARTS)
    }


def _package(point: EntryPoint) -> str:
    return "?" if point.dist is None else f"{point.dist.name} {point.dist.version}"


@cache
def _loaded(group: Group) -> tuple[tuple[Loaded, ...], tuple[Refused, ...]]:
    """What the entry points of a group lead to, by name, and those that cannot be loaded."""
    loaded: list[Loaded] = []
    refused: list[Refused] = []
    for point in _found()[group]:
        name, package = point.name, _package(point)
        try:
            loaded.append(Loaded(name, package, point.load()))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (kept as a reason, which is shown)
            # The code of others may raise anything, and must not keep the service from starting.
            refused.append(Refused(group, name, package, f"{point.value} cannot be loaded: {_said(error)}"))
    return tuple(loaded), tuple(refused)


def _said(error: BaseException) -> str:
    """What is shown of an error: the text of any but these may have an address with its password."""
    is_shown = isinstance(error, ImportError | SpecError) and str(error)
    return f"{type(error).__name__}: {error}" if is_shown else type(error).__name__


class Checked(NamedTuple):
    """The entry points of a group that can be used, and the others with their reasons."""

    used: tuple[Loaded, ...]
    refused: tuple[Refused, ...]


def checked(group: Group, problem: Callable[[Loaded], str | None], taken: Sequence[str]) -> Checked:
    """The entry points of a group of which `problem` says nothing; the names in `taken` are given away already.

    Where several packages have one name, none of them is used: which one would be left to chance.
    """
    loaded, unloadable = _loaded(group)
    refused = [*unloadable]
    packages = [(point.name, _package(point)) for point in _found()[group]]  # those that cannot be loaded, too
    used: list[Loaded] = []
    for one in loaded:
        others = [package for name, package in packages if name == one.name and package != one.package]
        why = problem(one)
        if one.name in taken or is_of_models(one.name):
            why = f"{one.name!r} is {'built in' if one.name in taken else 'a word of profiles'}: take another name"
        elif others:
            why = f"{', '.join(others)} has the name {one.name!r} as well: uninstall one of them"
        if why is None:
            used.append(one)
        else:
            refused.append(Refused(group, one.name, one.package, why))
    return Checked(tuple(used), tuple(refused))


def is_of_models(name: str) -> bool:
    """Whether the name would hide what the models of profiles have, as `copy` and all that begins with `model_`."""
    return name.startswith("model_") or hasattr(BaseModel, name) or name in _OF_SECTIONS


def _problem_of_source(one: Loaded) -> str | None:
    if not isinstance(one.value, SourceSpec):
        return f"it leads to a {type(one.value).__name__}, not to a SourceSpec"
    if one.value.name != one.name:
        return f"it leads to the source {one.value.name!r}: both need one name"
    return None if one.value.open is not None else "it does not say how it is opened: set `open`"


@cache
def _checked_sources() -> Checked:
    keys = [spec.top_k_key.removesuffix("_top_k") for spec in BUILT_IN]
    return checked(SOURCES, _problem_of_source, [*(spec.name for spec in BUILT_IN), *keys, *_MODELS])


@cache
def further_sources() -> tuple[SourceSpec, ...]:
    """The sources of other packages, by name."""
    return tuple(one.value for one in _checked_sources().used)


def refused_sources() -> tuple[Refused, ...]:
    """The entry points of the sources that cannot be used."""
    return _checked_sources().refused


def package_of(name: SourceName) -> str:
    """Name and version of the package that a further source is from. KeyError for any other."""
    return {one.name: one.package for one in _checked_sources().used}[name]


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
