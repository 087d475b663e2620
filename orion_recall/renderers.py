"""The registry of renderers: what stands before title, speaker and text in a line of a bundle.

A package adds one by an entry point of the group `orion_recall.renderers` that leads to a `Renderer` of its name,
and a profile chooses it by `render.style`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from orion_recall.packages import Loaded, Registry, SpecError, problem_of_name
from orion_recall.tasks import errors_logged

_LONGEST_HEAD = 400


class LineFacts(NamedTuple):
    """What a line may say of its memory before its text, each on one line.

    `days` are as `2026-03-01`, or `undated`; equal texts are one line with the days and `ids` of all, as `a, b`.
    `label` is that of the best source. The `score` is from 0 to 1.
    """

    days: str
    ids: str
    label: str
    source_ref: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """One style of a bundle's lines. `shows` is what the profile's reference says of it: "the date alone".

    `head` gives what follows the line's dash, on one line. A line whose head fails, or is no text, has that of
    `v1`; more than 400 characters are cut. `(until 2026-11-02)` follows by itself. SpecError where a field is no
    text.
    """

    name: str
    shows: str
    head: Callable[[LineFacts], str]

    def __post_init__(self) -> None:
        for field in ("name", "shows"):
            if not isinstance(getattr(self, field), str):
                raise SpecError(f"{field} is no text")


BUILT_IN: tuple[Renderer, ...] = (
    Renderer(
        name="v1",
        shows="date, source and id in brackets",
        head=lambda line: f"[{line.days} {line.label} {line.ids}]",
    ),
    Renderer(name="short", shows="the date alone", head=lambda line: line.days),
    Renderer(
        name="scores",
        shows="the score as well",
        head=lambda line: f"[{line.days} {line.label} {line.ids} {line.score:.2f}]",
    ),
    Renderer(
        name="source",
        shows="`[source:source_ref]` and then the date",
        head=lambda line: f"[{line.label}:{line.source_ref}] {line.days}",
    ),
)


def _problem(one: Loaded) -> str | None:
    if not isinstance(one.value, Renderer):
        return f"it leads to a {type(one.value).__name__}, not to a Renderer"
    return problem_of_name(one, one.value.name, "renderer")


FURTHER_RENDERERS = Registry("orion_recall.renderers", _problem, lambda: [one.name for one in BUILT_IN])


@cache
def renderers() -> Mapping[str, Renderer]:
    """By name: the built-in ones in their order, then those of other packages."""
    further = [_guarded(one.value) for one in FURTHER_RENDERERS.used]
    return {one.name: one for one in (*BUILT_IN, *further)}


def _guarded(renderer: Renderer) -> Renderer:
    """The renderer of another package: what it gives is one line, of v1 where it fails."""

    def head(line: LineFacts) -> str:
        with errors_logged(f"the renderer {renderer.name} of another package failed"):
            said = "".join([char if char.isprintable() else " " for char in renderer.head(line)[:_LONGEST_HEAD]])
            if said := " ".join(said.split()):
                return said
        return BUILT_IN[0].head(line)

    return replace(renderer, head=head)


if TYPE_CHECKING:
    RenderStyle = str
else:
    RenderStyle = Literal[tuple(renderers())]
"""The name of a renderer."""


def styles() -> str:
    """What the reference says of each: "`short` has the date alone; ..."."""
    return "; ".join([f"`{one.name}` has {one.shows}" for one in renderers().values()])
