"""What a worker decides by besides profile and data: its version, its model and its extractor."""

from __future__ import annotations

from collections.abc import Mapping

from orion_recall import __version__
from orion_recall.errors import ModelError
from orion_recall.models.embedder import Embedder
from orion_recall.settings import Settings

_HASH_DIGITS = 12


class Build:
    """The build of one worker, for its decisions. A model server that has not answered yet is left out."""

    def __init__(self, settings: Settings, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known = {"version": __version__, "extractor": settings.extractor}
        self._told: Mapping[str, str] = self._known

    @property
    def told(self) -> Mapping[str, str]:
        """Version, model, the first digits of its weights' hash, extractor, as `refresh` found them."""
        return self._told

    def refresh(self) -> None:
        """Ask the model again: it may have several forms, and take another with the index that it is for."""
        try:
            weights = self._embedder.weights_sha256[:_HASH_DIGITS]
            self._told = self._known | {"model": self._embedder.name, "weights": weights}
        except ModelError:
            self._told = self._known
