"""Prompt text: a bundle's bullets for templates, and the Jinja filter.

`rendered` is "" when nothing was found, never null, so Jinja's plain `default(...)` would print nothing:
templates use `{{ memory_bundle.rendered | default("...", true) }}`, or the filter that `add_filter` puts in:
`{{ memory_bundle | memory_context }}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Protocol

from orion_recall.contracts import MemoryBundleV1

NOTHING_FOUND = "No additional memory context provided."


class TemplateEnvironment(Protocol):
    """The part of a `jinja2.Environment` that is needed."""

    @property
    def filters(self) -> MutableMapping[str, Callable[..., Any]]: ...


def memory_context(bundle: MemoryBundleV1 | Mapping[str, Any] | None, nothing: str = NOTHING_FOUND) -> str:
    """The bundle's bullets, or the sentence that says there are none. Takes the model, its JSON, or None."""
    if isinstance(bundle, MemoryBundleV1):
        return bundle.rendered or nothing
    rendered = bundle.get("rendered") if bundle else None
    return rendered if isinstance(rendered, str) and rendered else nothing


def add_filter(environment: TemplateEnvironment) -> None:
    """Make `memory_context` a filter of a Jinja environment."""
    environment.filters["memory_context"] = memory_context
