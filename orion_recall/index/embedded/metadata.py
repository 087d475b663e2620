"""What the embedded index says of itself: the model behind its vectors, and how far it has come in the outbox."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from orion_recall.errors import ModelError, SourceError
from orion_recall.index.metadata import FORMAT, IndexCard
from orion_recall.models.embedder import Embedder

CARD = "index.json"


def card_if_known(embedder: Embedder) -> IndexCard | None:
    """The card of a new index, or None while the embedder is a server that is away."""
    try:
        return IndexCard.of(embedder)
    except ModelError:
        return None


def misfit_of(folder: Path, card: IndexCard, mine: IndexCard) -> str | None:
    """Why vectors of `mine` do not belong to the index of that card; None when they do."""
    if (misfit := card.misfit(mine)) is None:
        return None
    return (
        f"the index in {folder} {misfit} delete the folder to rebuild it, or build a new index beside it with "
        "`orion-recall memory reembed`"
    )


def read_card(place: Path, folder: Path) -> IndexCard:
    """The card of the index at that place; SourceError that says what to do about `folder` when it is no good."""
    file = place / CARD
    try:
        card = IndexCard(**json.loads(file.read_text("utf-8")))
        card = card.at(int(card.position))
    except (ValueError, TypeError, OSError) as error:
        raise SourceError(f"{file} cannot be read ({error}): delete {folder} and it will be rebuilt") from error
    if card.format != FORMAT:
        raise SourceError(f"the index in {folder} has format {card.format}: delete the folder to rebuild it")
    return card


def write_card(place: Path, card: IndexCard) -> None:
    """The whole card or, after a crash, the one before."""
    file = place / CARD
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(card)), "utf-8")
    temporary.replace(file)
