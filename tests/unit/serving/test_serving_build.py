from __future__ import annotations

from typing import cast

from orion_recall import __version__
from orion_recall.errors import ModelError
from orion_recall.models.embedder import Embedder
from orion_recall.serving.service import Build
from orion_recall.settings import Settings


class Server:
    """A model server that answers from some time on, with weights that may change."""

    name = "all-MiniLM-L6-v2"

    def __init__(self) -> None:
        self.weights: str | None = None

    @property
    def weights_sha256(self) -> str:
        if self.weights is None:
            raise ModelError("away")
        return self.weights


def test_a_build_tells_version_extractor_and_the_model_once_that_is_known():
    server = Server()
    build = Build(Settings(extractor="spacy"), cast("Embedder", server))
    known = {"version": __version__, "extractor": "spacy"}
    build.refresh()
    assert build.told == known
    server.weights = "0123456789abcdef" * 4
    build.refresh()
    assert build.told == known | {"model": "all-MiniLM-L6-v2", "weights": "0123456789ab"}
    server.weights = "f" * 64
    build.refresh()
    assert build.told["weights"] == "f" * 12
