"""The values of a profile's section by name, made once for all recalls with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_MOST_KEPT = 64
_kept: dict[int, tuple[BaseModel, Mapping[str, Any]]] = {}


def section_values(section: BaseModel) -> Mapping[str, Any]:
    """The values of a frozen section, as `model_dump` gives them; nobody may change the mapping. Thread-safe."""
    found = _kept.get(id(section))
    if found is None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        # The section is kept as well, so that no other one gets its id.
        found = _kept[id(section)] = section, section.model_dump()
    return found[1]
