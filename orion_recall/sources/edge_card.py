"""What the embedded index says of itself: the model behind its vectors, and how far it has come in the outbox."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from orion_recall.errors import ModelError, SourceError
from orion_recall.models.embedder import Embedder

CARD = "index.json"
_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCard:
    """What an index says of itself, kept beside it."""

    format: int
    model: str
    dimension: int
    weights_sha256: str
    position: int


def card_of(embedder: Embedder) -> IndexCard:
    """What a new index says of itself. ModelError while the embedder is a server that is away."""
    return IndexCard(
        format=_FORMAT,
        model=embedder.name,
        dimension=embedder.dimension,
        weights_sha256=embedder.weights_sha256,
        position=0,
    )


def card_if_known(embedder: Embedder) -> IndexCard | None:
    """`card_of`, or None while the embedder is a server that is away."""
    try:
        return card_of(embedder)
    except ModelError:
        return None


def misfit_of(folder: Path, card: IndexCard, mine: IndexCard) -> str | None:
    """Why vectors of `mine` do not belong to the index of that card; None when they do."""
    if (card.model, card.dimension, card.weights_sha256) == (mine.model, mine.dimension, mine.weights_sha256):
        return None
    return (
        f"the index in {folder} was made with {card.model} ({card.dimension} floats, weights "
        f"{card.weights_sha256[:12]}), queries are embedded with {mine.model} ({mine.dimension} floats, weights "
        f"{mine.weights_sha256[:12]}): configure that model, or delete the folder to rebuild it, or build a new "
        "index beside it with `orion-recall memory reembed`"
    )


def read_card(place: Path, folder: Path) -> IndexCard:
    """The card of the index at that place; SourceError that says what to do about `folder` when it is no good."""
    file = place / CARD
    try:
        card = IndexCard(**json.loads(file.read_text("utf-8")))
        card = replace(card, position=int(card.position))
    except (ValueError, TypeError, OSError) as error:
        raise SourceError(f"{file} cannot be read ({error}): delete {folder} and it will be rebuilt") from error
    if card.format != _FORMAT:
        raise SourceError(f"the index in {folder} has format {card.format}: delete it to rebuild it")
    return card


def write_card(place: Path, card: IndexCard) -> None:
    """The whole card or, after a crash, the one before."""
    file = place / CARD
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(card)), "utf-8")
    temporary.replace(file)
