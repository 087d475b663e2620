"""Snapshots of filled stores, so that a second run starts at once and searches the same index.

The order of equal scores differs from one build of an index to the next. Two runs over one snapshot differ only by
what is compared.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orion_recall
from orion_recall.index.embedded.optimised_copy import copy_with_holes
from orion_recall.settings import Settings
from orion_recall.values import Memory

log = logging.getLogger("orion_recall.evaluation")

MOST_SNAPSHOTS = 6
MOST_BYTES = 2 << 30
# The code that decides what is written for a memory: part of the snapshot's key.
_CODE = (
    "evaluation/dataset.py",
    "evaluation/fill.py",
    "graph",
    "memory",
    "models",
    "index",
    "sources",
    "contracts",
    "text",
)
_MODEL_SETTINGS = ("model", "embedder", "embedding_precision", "token_vectors", "tei", "keyword_weights")
_METADATA, _PART = "contents.json", ".part-"
_PART_LIVES_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The ids of every conversation's memories, and the time of each conversation's newest memory (epoch seconds).

    A conversation without any date is not in `newest`.
    """

    ids: Mapping[str, Sequence[str]]
    newest: Mapping[str, float]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Contents:
        """The contents of these memories."""
        ids: dict[str, list[str]] = {}
        newest: dict[str, float] = {}
        for memory in memories:
            ids.setdefault(memory.tenant, []).append(memory.id)
            moment = memory.occurred_at if memory.occurred_at is not None else memory.mentioned_at
            if moment is not None:
                newest[memory.tenant] = max(moment, newest.get(memory.tenant, moment))
        return cls(ids=ids, newest=newest)

    @property
    def count(self) -> int:
        """The number of memories."""
        return sum(map(len, self.ids.values()))


class Snapshots:
    """Folders by key, put in place by one rename and only read after that: concurrent runs are safe.

    The most recently used are kept: `most` of them, and of `most_bytes` together.
    """

    def __init__(self, folder: Path, *, most: int = MOST_SNAPSHOTS, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder / "stores"
        self._most, self._most_bytes = most, most_bytes

    def restore(self, key: str, data_dir: Path) -> Contents | None:
        """Copies the snapshot to `data_dir`; None when there is none that can be read."""
        kept = self.folder / key
        try:
            metadata: dict[str, Any] = json.loads((kept / _METADATA).read_text("utf-8"))
            contents = Contents(ids=metadata["ids"], newest=metadata["newest"])
            shutil.copytree(kept, data_dir, copy_function=copy_with_holes, dirs_exist_ok=True)
            os.utime(kept)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the stores in %s cannot be used (%s): they are built anew", kept, error)
            self.forget(key)
            shutil.rmtree(data_dir, ignore_errors=True)
            return None
        return contents

    def keep(self, key: str, data_dir: Path, contents: Contents) -> None:
        """Copies closed stores from `data_dir`. A failure is logged, and nothing is kept."""
        part = self.folder / f"{_PART}{key}-{os.getpid()}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(data_dir, part, copy_function=copy_with_holes)
            (part / _METADATA).write_text(json.dumps(asdict(contents)), "utf-8")
            self._put(part, key)
            self._make_room()
        except OSError as error:
            log.warning("the stores are not kept in %s: %s", self.folder, error)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _put(self, part: Path, key: str) -> None:
        try:
            part.rename(self.folder / key)
        except OSError:
            if not (self.folder / key).is_dir():
                raise
            # Another run was faster; its stores are equal.

    def forget(self, key: str) -> None:
        """Removes a broken snapshot."""
        shutil.rmtree(self.folder / key, ignore_errors=True)

    def _make_room(self) -> None:
        found = [path for path in self.folder.iterdir() if path.is_dir()]
        used = {path: path.stat().st_mtime for path in found}
        whole = sorted((path for path in found if not path.name.startswith(_PART)), key=lambda path: -used[path])
        old = time.time() - _PART_LIVES_S
        left_behind = [path for path in found if path.name.startswith(_PART) and used[path] < old]
        held, too_many = 0, list[Path]()
        for place, path in enumerate(whole):
            held += sum(file.stat().st_blocks * 512 for file in path.rglob("*"))
            if place >= self._most or (place > 0 and held > self._most_bytes):
                too_many.append(path)
        for path in (*too_many, *left_behind):
            shutil.rmtree(path, ignore_errors=True)


def snapshot_key(memories: Path, settings: Settings) -> str:
    """The key of a snapshot: the memories' file, the configured model, and the code that fills the stores.

    The model's weights need not be in it: the index refuses others than those in its metadata.
    """
    digest = hashlib.sha256()
    with memories.open("rb") as file:
        digest.update(hashlib.file_digest(file, "sha256").digest())
    chosen = {
        name: str(getattr(settings, name)) for name in Settings.model_fields if name.startswith(_MODEL_SETTINGS)
    }
    digest.update(json.dumps(chosen, sort_keys=True).encode())
    package = Path(orion_recall.__file__).parent
    for name in _CODE:
        path = package / name
        for file_name in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file_name.read_bytes())
    return digest.hexdigest()[:32]
