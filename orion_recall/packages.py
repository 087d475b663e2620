"""The registries of what other packages add by their entry points: sources, score parts, renderers, extractors.

An entry point has the name of what it leads to. One that cannot be used is left out and kept as `Refused`, with its
package and the reason: a profile or setting that names it is refused for that reason, `doctor` lists it, and
everything else goes on.

The packages are looked for once in a process, when a profile's model is made. A client never comes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from orion_recall.values import SOURCE_NAME

Group = Literal[
    "orion_recall.sources", "orion_recall.score_parts", "orion_recall.renderers", "orion_recall.extractors"
]
KINDS: Mapping[Group, str] = {
    "orion_recall.sources": "source",
    "orion_recall.score_parts": "score part",
    "orion_recall.renderers": "renderer",
    "orion_recall.extractors": "extractor",
}
"""What the entry points of each group lead to, in the order in which they are listed."""
NAME = re.compile(SOURCE_NAME)


class SpecError(ValueError):
    """A spec that cannot be; the text names the field."""


class PackageSettings(Protocol):
    """The settings of the service that opening what a package adds may go by. Addresses are its own business."""

    @property
    def data_dir(self) -> Path: ...
    @property
    def tenants(self) -> Sequence[str]: ...
    @property
    def default_tenant(self) -> str: ...


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


class Registry:
    """The entry points of a group.

    `problem` says what is wrong with what one leads to, or None. The names that `taken` gives are built in. Where
    several packages have one name, none of them is used: which one would be left to chance.
    """

    def __init__(
        self, group: Group, problem: Callable[[Loaded], str | None], taken: Callable[[], Sequence[str]]
    ) -> None:
        self.group: Group = group
        self._problem, self._taken = problem, taken
        _REGISTRIES[group] = self

    @property
    def used(self) -> tuple[Loaded, ...]:
        """What can be used, by name."""
        return self._checked[0]

    @property
    def refused(self) -> tuple[Refused, ...]:
        """The entry points that cannot be used."""
        return self._checked[1]

    def package_of(self, name: str) -> str:
        """Name and version of the package that one that can be used is from. KeyError for any other."""
        return {one.name: one.package for one in self.used}[name]

    @cached_property
    def _checked(self) -> tuple[tuple[Loaded, ...], tuple[Refused, ...]]:
        found, refused = _loaded(self.group)
        packages = [(point.name, _package(point)) for point in _found()[self.group]]  # what cannot be loaded, too
        used, taken = list[Loaded](), self._taken()
        for one in found:
            others = [package for name, package in packages if name == one.name and package != one.package]
            why = self._problem(one)
            if one.name in taken:
                why = f"{one.name!r} is built in: take another name"
            elif others:
                why = f"{', '.join(others)} has the name {one.name!r} as well: uninstall one of them"
            if why is None:
                used.append(one)
            else:
                refused.append(Refused(self.group, one.name, one.package, why))
        return tuple(used), tuple(refused)


_REGISTRIES: dict[Group, Registry] = {}


def every_refused() -> list[Refused]:
    """The entry points that cannot be used, of all groups whose registry this process has imported."""
    return [one for group in KINDS if group in _REGISTRIES for one in _REGISTRIES[group].refused]


def offered(group: Group) -> frozenset[str]:
    """The names of a group's entry points, also of those that cannot be used: nothing is loaded."""
    return frozenset([point.name for point in _found()[group]])


def problem_of_name(one: Loaded, name: str, kind: str) -> str | None:
    """What is wrong with the name of what an entry point leads to, which is of that kind."""
    if name != one.name:
        return f"it leads to the {kind} {name!r}: both need one name"
    return None if NAME.fullmatch(name) else "its name is not lower-case letters, digits and _, 32 at most"


@cache
def _found() -> Mapping[Group, Sequence[EntryPoint]]:
    """The entry points of every group, from one look at what is installed."""
    each = entry_points()
    return {group: sorted(each.select(group=group), key=_order) for group in KINDS}


def _order(point: EntryPoint) -> tuple[str, str]:
    return point.name, _package(point)


def _package(point: EntryPoint) -> str:
    return "?" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _loaded(group: Group) -> tuple[list[Loaded], list[Refused]]:
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
    return loaded, refused


def _said(error: BaseException) -> str:
    """What is shown of an error: the text of any but these may have an address with its password."""
    is_shown = isinstance(error, ImportError | SpecError) and str(error)
    return f"{type(error).__name__}: {error}" if is_shown else type(error).__name__
