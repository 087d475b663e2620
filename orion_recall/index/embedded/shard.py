"""The live shard of Qdrant Edge with its metadata: loaded or created, written, saved, copied, replaced.

Every call blocks. One thread at a time may write; any thread may read.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import qdrant_edge as qe

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import SourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.index.embedded.folders import (
    METADATA_FILE,
    build_place,
    is_complete,
    live_place,
    metadata_if_known,
    misfit_of,
    read_metadata,
    swap,
    tidy,
    write_metadata,
)
from orion_recall.index.embedded.optimised_copy import copy_shard, points_of, taken_bytes
from orion_recall.index.embedded.points import (
    ALWAYS_INDEXED,
    TermRarity,
    add_field_index,
    edge_point,
    fields_to_index,
    indexed_fields,
    whole_fields,
)
from orion_recall.index.embedded.token_column import TokenColumn
from orion_recall.index.engine_threads import translated
from orion_recall.index.metadata import FORMAT, IndexMetadata, refuse_another
from orion_recall.index.points import DENSE_VECTORS, SPARSE_VECTORS, IndexPoint
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import TokenVectors

log = logging.getLogger("orion_recall.sources")

ADVICE = "delete that folder, and it will be built again from this record, or set ORION_DATA_DIR to another"

# From so large a segment on the engine builds a vector graph: it pays from about 8,000 memories on.
_GRAPH_FROM_KB = 12_000
# One means: in the thread that asks. With threads of its own the engine hands each search over, and they look for
# work for a while before they sleep (2 ms of CPU a recall).
_SEARCH_THREADS = 1
_SHARD, _TOKENS = "shard", "tokens"
_FEW_TENANTS = 4
# The engine holds Python's lock while it writes and reads vectors: small pages.
_PAGE, _PAGE_READ = 25, 10
# More writes than there are between two flushes; to pass over them takes 10 ms.
_NUMBERS_PASSED = 20_000


class ReplacedShard(NamedTuple):
    """A shard that another has replaced: close it, and release the lock of its folder."""

    shard: qe.EdgeShard | None
    tokens: TokenColumn | None
    lock: FolderLock | None

    def close(self) -> None:
        for one in (self.tokens, self.shard):
            if one is not None:
                one.close()


class LiveShard:
    """The shard in use of a folder. `shard` and `metadata` are None until it is loaded or created.

    A new one is created as soon as the embedder knows its model: an embedding server may be away at first.
    """

    def __init__(
        self, folder: Path, embedder: Embedder, sparse: SparseEncoder, room: DiskSpace | None = None
    ) -> None:
        self.folder, self.place, self.room = folder, folder, room
        self.shard: qe.EdgeShard | None = None
        self.tokens: TokenColumn | None = None
        self.metadata: IndexMetadata | None = None
        self.fields = ALWAYS_INDEXED
        """The payload fields that have an index in the shard. Each is there before the first point with a value."""
        self.is_saved = True
        self._embedder, self._sparse = embedder, sparse
        self._is_the_embedders = False
        self._is_loaded = False
        self.expected_identity: str | None = None
        self._place_lock: FolderLock | None = None
        self.write_log: set[int] | None = None
        """Keys written since the copy that is being optimised; None while there is no such copy."""
        self._writes = 0
        self.rarity = TermRarity()
        self._fields_in_use: tuple[qe.EdgeShard | None, int, dict[str, bool]] = (None, 0, {})
        self._tenants: tuple[qe.EdgeShard | None, frozenset[str] | None] = None, None
        self._counting = Lock()

    @property
    def database_identity(self) -> str | None:
        return (self.metadata.record or None) if self.metadata is not None else None

    def check_identity(self) -> None:
        """AnotherRecordsCopy when it was filled from another database."""
        refuse_another(f"the index in {self.folder}", self.database_identity, self.expected_identity, advice=ADVICE)

    def checked(self) -> qe.EdgeShard:
        """The shard, of the expected database. SourceError when it is not open, AnotherRecordsCopy."""
        self.check_identity()
        if self.shard is not None:
            return self.shard
        if self._is_loaded:
            raise SourceError(
                f"the index in {self.folder} is empty, and its embedding model is not known yet: check the "
                "embedding server, then try again"
            )
        raise SourceError(f"the index in {self.folder} is not open")

    def has_values(self, field: str) -> bool:
        """Whether any point has a value in the indexed field: asked of the shard once between two writes."""
        shard, writes = self.checked(), self._writes
        of, at, known = self._fields_in_use
        if of is not shard or at != writes:
            self._fields_in_use = shard, writes, known = shard, writes, dict[str, bool]()
        if field not in known:
            indexed = shard.info().payload_schema.get(field)
            known[field] = indexed is not None and indexed.points > 0
        return known[field]

    def tenants(self) -> frozenset[str] | None:
        """All tenants that the shard may have points of, those of passages among them; None where they are many.

        A tenant is added before its first point is written, and stays while the shard is open.
        """
        shard, _ = self._open()
        of, known = self._tenants
        return known if of is shard else self._counted_tenants(shard)

    def _counted_tenants(self, shard: qe.EdgeShard, further: Collection[str] = ()) -> frozenset[str] | None:
        with self._counting:
            of, known = self._tenants
            if of is not shard:
                found = shard.facet(qe.FacetRequest("tenant", _FEW_TENANTS + 1, True, None)).hits
                known = frozenset([str(one.value) for one in found])
            if known is not None:
                known = known.union(further)
                known = known if len(known) <= _FEW_TENANTS else None
            self._tenants = shard, known
            return known

    def load(self) -> None:
        """Loads the shard, or creates it; SourceError when it cannot be used. Hold the folder's lock."""
        if self.room is not None:
            self.room.check_opening()
        self._move_to(live_place(self.folder))
        tidy(self.folder, self.place)
        mine, shard = metadata_if_known(self._embedder, self._sparse), self.place / _SHARD
        if not (self.place / METADATA_FILE).exists():
            if shard.exists():
                raise SourceError(f"{shard} has no index.json beside it: delete the folder and it will be rebuilt")
            if mine is not None:
                self.make(mine)
            self._is_loaded = True
            return
        metadata = read_metadata(self.place, self.folder)
        if metadata.format < FORMAT and (mine is None or not is_complete(build_place(self.folder, mine))):
            self._make_anew(metadata, mine)
            return
        if mine is not None and (misfit := misfit_of(self.folder, metadata, mine)) is not None:
            metadata = self._swapped(mine, misfit)
        try:
            shard = translated("the index", lambda: _load(self.place / _SHARD))
            self.fields, self.shard = whole_fields(shard), shard
            if metadata.tokens:
                self.tokens = translated("the index's token vectors", lambda: TokenColumn(self.place / _TOKENS))
        except SourceError as error:
            raise SourceError(f"{error}; delete {self.folder} and it will be rebuilt") from error
        self.metadata, self._is_the_embedders, self._is_loaded = metadata, mine is not None, True

    def _make_anew(self, old: IndexMetadata, mine: IndexMetadata | None) -> None:
        """An empty index, which the record fills, in the place of one of an older format."""
        log.warning("the index in %s has format %d: it is built anew from the record", self.folder, old.format)
        for name in (_SHARD, _TOKENS):  # the metadata last: what is cut short is begun again
            shutil.rmtree(self.place / name, ignore_errors=True)
        (self.place / METADATA_FILE).unlink()
        if mine is not None:
            self.make(replace(mine, record=old.record))
        self._is_loaded = True

    def make(self, mine: IndexMetadata) -> None:
        """Creates the shard as the metadata says, unless there is one."""
        if self.metadata is not None:
            return
        mine = replace(mine, record=self.expected_identity or mine.record)
        params = qe.EdgeVectorParams(size=mine.dimension, distance=qe.Distance.Cosine)
        config = qe.EdgeConfig(
            vectors=dict.fromkeys(DENSE_VECTORS, params),
            sparse_vectors=sparse_vectors(),
            optimizers=qe.EdgeOptimizersConfig(indexing_threshold=_GRAPH_FROM_KB),
            max_search_threads=_SEARCH_THREADS,
            # The outbox is the log: what was written after the last save comes again. The engine's own would hold
            # every vector once more, up to a hundred megabytes of them.
            wal_enabled=False,
        )
        shard = qe.EdgeShard.create(str(self.place / _SHARD), config)
        for field in ALWAYS_INDEXED:
            add_field_index(shard, field)
        shard.flush()
        if mine.tokens:
            assert isinstance(self._embedder, TokenVectors)
            self.tokens = TokenColumn(self.place / _TOKENS, self._embedder.token_width)
        write_metadata(self.place, mine)
        self.fields = ALWAYS_INDEXED
        self.shard, self.metadata, self._is_the_embedders = shard, mine, True

    def refuse_another_model(self) -> None:
        """SourceError unless the vectors are the embedder's, which may have been away when this was loaded."""
        if self._is_the_embedders or self.metadata is None:
            return
        mine = IndexMetadata.of(self._embedder, self._sparse)
        if (misfit := misfit_of(self.folder, self.metadata, mine)) is not None:
            raise SourceError(misfit)
        self._is_the_embedders = True

    def set_identity(self, identity: str) -> None:
        """From now on it is a copy of the database with that identity."""
        assert self.metadata is not None  # a shard that is loaded has some
        self.metadata, self.is_saved = replace(self.metadata, record=identity), False

    def check_room(self, needed_bytes: int = 0) -> None:
        """DiskShort when the disk has no room for more: a mapped file on a full disk would end the process."""
        if self.room is not None:
            self.room.check(needed_bytes)

    def delete(self, keys: Sequence[int]) -> None:
        shard = self._writing(keys)
        shard.update(qe.UpdateOperation.delete_points([*keys]))
        if self.tokens is not None:
            self.tokens.delete(keys)

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """Writes the points; saved later. DiskShort: not all was written, and all may be written again."""
        self.check_room()
        shard = self._writing([one.key for one in points])
        if (known := self.tenants()) is not None and (written := {one.payload["tenant"] for one in points} - known):
            self._counted_tenants(shard, written)
        self._add_field_indexes(shard, points)
        for start in range(0, len(points), _PAGE):
            FOREGROUND.yield_to_foreground()
            self.check_room()  # just before: a disk that is filled meanwhile ends the process
            page = {one.key: one for one in points[start : start + _PAGE]}
            if self.tokens is not None:  # first: a memory that is found is compared
                self.tokens.put({key: one.tokens for key, one in page.items()})
            shard.update(qe.UpdateOperation.upsert_points([edge_point(one) for one in page.values()]))

    def _add_field_indexes(self, shard: qe.EdgeShard, points: Sequence[IndexPoint]) -> None:
        """Makes the indexes that the points need and the shard has not."""
        held = shard.info().points_count + len(points)
        if not (missing := fields_to_index(points, held) - self.fields):
            return
        for field in sorted(missing):
            FOREGROUND.yield_to_foreground()
            self.check_room()
            add_field_index(shard, field)
            self.fields |= {field}

    def _writing(self, keys: Sequence[int]) -> qe.EdgeShard:
        shard, _ = self._open()
        self._writes += 1
        self.is_saved = False
        self.rarity.note(len(keys), shard.info().points_count)
        if self.write_log is not None:
            self.write_log.update(keys)
        return shard

    def advance(self, position: int) -> None:
        """All up to the position is written; saved later."""
        _, metadata = self._open()
        mine = metadata_if_known(self._embedder, self._sparse)
        self.metadata = metadata.at(position) if mine is None else metadata.at(position).written_by(mine)
        self.is_saved, self._writes = False, self._writes + 1

    def save(self) -> None:
        if self.is_saved or self.shard is None or self.metadata is None:
            return
        metadata = self.metadata  # before: what is written meanwhile is not in it
        self.shard.flush()
        if self.tokens is not None:
            self.tokens.save()
        write_metadata(self.place, metadata)
        self.is_saved = True

    def copy_to(self, place: Path) -> Path:
        """Copies the shard's files to a folder; from now on writes are logged for that copy."""
        self.save()
        # As large again, and as much while it is optimised.
        self.check_room(2 * taken_bytes(self.place / _SHARD) + taken_bytes(self.place / _TOKENS))
        copy, self.write_log = copy_shard(self.place / _SHARD, place), set()
        return copy

    def switch_to_copy(self, place: Path, lock: FolderLock) -> ReplacedShard:
        """The copy in that folder is live from now on, with what was written since it was made."""
        before, metadata = self._open()
        copy = _load(place / _SHARD)
        for field in sorted(self.fields - indexed_fields(copy)):
            add_field_index(copy, field)
        _replay(copy, self.write_log or (), before)
        copy.flush()
        tokens = self.tokens.copied(place / _TOKENS) if self.tokens is not None else None
        write_metadata(place, metadata)
        self.write_log, self.is_saved = None, True
        return self._replaced_by(copy, tokens, metadata, place, lock)

    def swap_in(self, built: LiveShard, lock: FolderLock | None) -> ReplacedShard:
        (shard, metadata), tokens = built._open(), built.tokens
        built.shard, built.tokens, built._is_loaded = None, None, False
        return self._replaced_by(shard, tokens, metadata, built.place, lock)

    def close(self) -> None:
        shard, tokens, self.shard, self.tokens = self.shard, self.tokens, None, None
        ReplacedShard(shard, tokens, None).close()

    def release(self) -> None:
        """Releases the lock of the folder of a build that is live."""
        self._is_loaded = False
        if self._place_lock is not None:
            self._place_lock.release()

    def _open(self) -> tuple[qe.EdgeShard, IndexMetadata]:
        if self.shard is None or self.metadata is None:
            raise SourceError(f"the index in {self.folder} is not open")
        return self.shard, self.metadata

    def _replaced_by(
        self,
        shard: qe.EdgeShard,
        tokens: TokenColumn | None,
        metadata: IndexMetadata,
        place: Path,
        lock: FolderLock | None,
    ) -> ReplacedShard:
        replaced = ReplacedShard(self._open()[0], self.tokens, self._place_lock)
        self.tokens, self.rarity, self.fields = tokens, TermRarity(), whole_fields(shard)
        self.shard, self.metadata, self.place, self._place_lock = shard, metadata, place, lock
        return replaced

    def _swapped(self, mine: IndexMetadata, misfit: str) -> IndexMetadata:
        """Swaps in the build by the right model, and gives its metadata; SourceError when there is none."""
        place = build_place(self.folder, mine)
        if not is_complete(place):
            raise SourceError(misfit)
        before = self.place
        self._move_to(place)
        metadata = read_metadata(self.place, self.folder)
        if misfit_of(self.folder, metadata, mine) is not None:
            raise SourceError(misfit)
        swap(self.folder, place)
        log.info("the index made with %s was swapped in for the one in %s", metadata.model, before)
        return metadata

    def _move_to(self, place: Path) -> None:
        self.release()
        if place != self.folder:
            self._place_lock = FolderLock.try_acquire(place)
            if self._place_lock is None:
                raise SourceError(f"the index in {place} is being built by another process: wait until it is done")
        self.place = place


def sparse_vectors() -> dict[str, qe.EdgeSparseVectorParams]:
    # Of fewer points than the threshold with such a vector the engine does not search the words: it looks at each
    # point of the tenant, and most are memories.
    thresholds = {"entity": 1}
    return {
        name: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf, full_scan_threshold=thresholds.get(name))
        for name in SPARSE_VECTORS
    }


def _load(shard: Path) -> qe.EdgeShard:
    """Loads a shard. What the configuration does not name stays as the shard was made."""
    config = qe.EdgeConfig(sparse_vectors=sparse_vectors(), max_search_threads=_SEARCH_THREADS)
    loaded = qe.EdgeShard.load(str(shard), config)
    # The engine numbers writes, goes on after the last flush that was whole, and ignores a write to a point whose
    # number is higher. A process that is killed amid a flush leaves such points: their numbers are passed over.
    nothing = qe.UpdateOperation.delete_points([])
    for _ in range(_NUMBERS_PASSED):
        loaded.update(nothing)
    return loaded


def _replay(copy: qe.EdgeShard, written: Iterable[int], live: qe.EdgeShard) -> None:
    """Writes to a copy what was written to the live shard since the copy was made."""
    keys = [*written]
    for start in range(0, len(keys), _PAGE_READ):
        page = keys[start : start + _PAGE_READ]
        records = live.retrieve([*page], True, True)
        if gone := {*page} - {one.id for one in records}:
            copy.update(qe.UpdateOperation.delete_points([*gone]))
        if records:
            copy.update(qe.UpdateOperation.upsert_points(points_of(records)))
