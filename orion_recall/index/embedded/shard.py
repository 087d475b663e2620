"""One shard of Qdrant Edge on disk, and what it says of itself: loaded or made, written, saved, copied, replaced.

Everything here blocks. Of what it holds only one thread at a time may write, and any may read.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import qdrant_edge as qe

from orion_recall.engines.lock import FolderLock
from orion_recall.errors import SourceError
from orion_recall.index.embedded.folders import build_place, is_complete, live_place, swap, tidy
from orion_recall.index.embedded.metadata import CARD, card_if_known, misfit_of, read_card, write_card
from orion_recall.index.embedded.optimised_copy import copy_shard
from orion_recall.index.embedded.points import token_vectors
from orion_recall.index.embedded.writes import Written, carry_out, write_again
from orion_recall.index.engine_threads import translated
from orion_recall.index.metadata import IndexCard
from orion_recall.index.points import DENSE_VECTORS, KEYWORD_FIELDS, SPARSE_VECTORS, TOKENS
from orion_recall.index.write_batch import WriteBatch
from orion_recall.models.embedder import Embedder
from orion_recall.models.token_space import TokenVectors

log = logging.getLogger("orion_recall.sources")

# The engine builds the graph of the dense vectors once any of a segment's vectors take this much: by its default of
# 10 MB the tokens of 1,500 memories would start what pays from some 8,000 on.
_GRAPH_FROM_KB = 50_000
_SHARD = "shard"


class Before(NamedTuple):
    """A shard whose place another has taken: to be closed, and its place to be let go."""

    shard: qe.EdgeShard
    lock: FolderLock | None


class KeptShard:
    """The shard that is live in a folder. `shard` and `card` are None until it is loaded or made.

    A new one is made as soon as the embedder knows its model: a server may be away at first.
    """

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self.folder, self.place = folder, folder
        self.shard: qe.EdgeShard | None = None
        self.card: IndexCard | None = None
        self.is_saved = True
        self._embedder = embedder
        self._is_the_embedders = False
        self._place_lock: FolderLock | None = None
        # What was written since the copy was made that is being optimised; None when there is none.
        self._since_copied: Written | None = None

    @property
    def count(self) -> int:
        """Points in it: memories and entities."""
        return self._open()[0].info().points_count

    def load(self) -> None:
        """Load what is there, or make it; SourceError when it cannot be used. Hold the folder's lock."""
        mine = card_if_known(self._embedder)
        self._move_to(live_place(self.folder))
        tidy(self.folder, self.place)
        if not (self.place / CARD).exists():
            if (self.place / _SHARD).exists():
                raise SourceError(
                    f"{self.place / _SHARD} has no index.json beside it: delete the folder and it will be rebuilt"
                )
            if mine is not None:
                self._make(mine)
            return
        card = read_card(self.place, self.folder)
        if mine is not None and (misfit := misfit_of(self.folder, card, mine)) is not None:
            card = self._swapped(mine, misfit)
        self.shard = self._loaded()
        self.card, self._is_the_embedders = card, mine is not None

    def make(self, mine: IndexCard) -> None:
        """A new shard, as the card says, where there is none yet."""
        if self.card is None:
            self._make(mine)

    def refuse_another_model(self) -> None:
        """SourceError unless the vectors are the embedder's: it may have been away when this was loaded."""
        if self._is_the_embedders or self.card is None:
            return
        if (misfit := misfit_of(self.folder, self.card, IndexCard.of(self._embedder))) is not None:
            raise SourceError(misfit)
        self._is_the_embedders = True

    def mark(self, record: str) -> None:
        """It is of that record from now on."""
        assert self.card is not None  # a shard that is loaded has one
        self.card, self.is_saved = replace(self.card, record=record), False

    def write(self, step: WriteBatch, position: int) -> None:
        """Does the step and moves the position; saved later."""
        shard, card = self._open()
        carry_out(shard, step, self._since_copied)
        mine = card_if_known(self._embedder)
        self.card = card.at(position) if mine is None else card.at(position).written_by(mine)
        self.is_saved = False

    def save(self) -> None:
        """What was written is on disk, and then how far that is: a crash between the two writes it again."""
        if self.is_saved or self.shard is None or self.card is None:
            return
        card = self.card
        self.shard.flush()
        write_card(self.place, card)
        self.is_saved = True

    def copy_to(self, place: Path) -> Path:
        """A copy of the shard's files at that place; from now on what is written is kept for it."""
        self.save()
        copy = copy_shard(self.place / _SHARD, place)
        self._since_copied = Written()
        return copy

    def give_up_copy(self) -> None:
        """Nothing is kept for the copy any more."""
        self._since_copied = None

    def go_over_to(self, place: Path, lock: FolderLock) -> Before:
        """The copy at that place is live from now on, with what was written since it was made."""
        before, card = self._open()
        copy = qe.EdgeShard.load(str(place / _SHARD))
        write_again(copy, self._since_copied or Written(), before)
        copy.flush()
        write_card(place, card)
        self._since_copied, self.is_saved = None, True
        return self._taken_by(copy, card, place, lock)

    def take(self, built: KeptShard, lock: FolderLock | None) -> Before:
        """What another one holds is live here from now on; that one holds nothing any more."""
        (shard, card), built.shard = built._open(), None
        return self._taken_by(shard, card, built.place, lock)

    def close(self) -> None:
        """Close the shard; what was not saved is lost."""
        shard, self.shard = self.shard, None
        if shard is not None:
            shard.close()

    def release(self) -> None:
        """Let the shard's place go."""
        if self._place_lock is not None:
            self._place_lock.release()
            self._place_lock = None

    def _open(self) -> tuple[qe.EdgeShard, IndexCard]:
        if self.shard is None or self.card is None:
            raise SourceError(f"the index in {self.folder} is not open")
        return self.shard, self.card

    def _taken_by(self, shard: qe.EdgeShard, card: IndexCard, place: Path, lock: FolderLock | None) -> Before:
        before = Before(self._open()[0], self._place_lock)
        self.shard, self.card, self.place, self._place_lock = shard, card, place, lock
        return before

    def _swapped(self, mine: IndexCard, misfit: str) -> IndexCard:
        """The card of the build by the right model, which is the index now; SourceError when there is none."""
        place = build_place(self.folder, mine.model, mine.dimension, mine.weights_sha256, mine.tokens)
        if not is_complete(place):
            raise SourceError(misfit)
        before = self.place
        self._move_to(place)
        card = read_card(self.place, self.folder)
        if misfit_of(self.folder, card, mine) is not None:
            raise SourceError(misfit)
        swap(self.folder, place)
        log.info("the index by %s has taken the place of the one in %s", card.model, before)
        return card

    def _move_to(self, place: Path) -> None:
        """The index is there, and nobody else writes to it."""
        self.release()
        if place != self.folder:
            self._place_lock = FolderLock.try_acquire(place)
            if self._place_lock is None:
                raise SourceError(f"the index in {place} is being built by another process: wait until it is done")
        self.place = place

    def _make(self, mine: IndexCard) -> None:
        size, cosine = mine.dimension, qe.Distance.Cosine
        vectors = {name: qe.EdgeVectorParams(size=size, distance=cosine) for name in DENSE_VECTORS}
        sparse = {name: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf) for name in SPARSE_VECTORS}
        optimizers: qe.EdgeOptimizersConfig | None = None
        if mine.tokens:
            assert isinstance(self._embedder, TokenVectors)
            vectors[TOKENS] = token_vectors(self._embedder.token_width)
            optimizers = qe.EdgeOptimizersConfig(indexing_threshold=_GRAPH_FROM_KB)
        config = qe.EdgeConfig(vectors=vectors, sparse_vectors=sparse, optimizers=optimizers)
        shard = qe.EdgeShard.create(str(self.place / _SHARD), config)
        for name in KEYWORD_FIELDS:
            shard.update(qe.UpdateOperation.create_field_index(name, qe.PayloadSchemaType.Keyword))
        shard.update(qe.UpdateOperation.create_field_index("ts", qe.PayloadSchemaType.Float))
        shard.flush()
        write_card(self.place, mine)
        self.shard, self.card, self._is_the_embedders = shard, mine, True

    def _loaded(self) -> qe.EdgeShard:
        try:
            return translated("the index", lambda: qe.EdgeShard.load(str(self.place / _SHARD)))
        except SourceError as error:
            raise SourceError(f"{error}; delete {self.folder} and it will be rebuilt") from error
