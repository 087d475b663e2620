"""Index and graph of further workers: files copied from the first worker's while nobody has them open.

To embed five thousand memories takes a minute, to copy their files two seconds. A copy goes on from the outbox
position that it was made at. Files of workers that are wanted no more are deleted: nobody would keep them up to
date, nor take out of them what is to be forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path

from orion_recall.engines.lock import LOCK_NAME, FolderLock, holder
from orion_recall.errors import EngineError, RecordError, SourceError
from orion_recall.index.embedded.folders import BUILDS, CURRENT, live_place, read_metadata
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import close_pool, open_pool
from orion_recall.serving.backends import embedded_copies, own_copy
from orion_recall.serving.processes.supervisor import data_dir_of, further_folders
from orion_recall.settings import Settings
from orion_recall.tasks import POSTGRES_S, Backoff, cancel

log = logging.getLogger("orion_recall.service")

_FILES = ("shard", "tokens", "store", CURRENT)
_PART = ".part"
_NOT_COPIED = shutil.ignore_patterns(LOCK_NAME, BUILDS, CURRENT)


def make_further_copies(settings: Settings, count: int) -> list[Path]:
    """Index and graph of workers 2 to `count`, where they are missing or not of the first one's kind; the new ones.

    What cannot be copied is filled from the record by its worker. A folder that a process has open is left alone.
    """
    first, made = settings.data_dir.resolve(), list[Path]()
    for number in range(2, count + 1):
        place = data_dir_of(first, number)
        if not _is_of_one_kind(first / "index", place / "index"):
            _delete(place)
        for kind in embedded_copies(settings):
            if not _is_there(first / kind) or _is_there(place / kind):
                continue
            try:
                _copy(first / kind, place / kind, settings.min_free_bytes)
            except (OSError, SourceError, EngineError) as error:
                log.warning("%s is filled from the record: it cannot be copied (%s)", place / kind, error)
                continue
            made.append(place / kind)
    return made


def delete_surplus(settings: Settings, count: int) -> list[int]:
    """Deletes index and graph of the workers after `count`; their numbers. `unregister` them, then.

    A folder that a process has open stays.
    """
    return [number for number, place in further_folders(settings.data_dir) if number > count and _delete(place)]


async def unregister(settings: Settings, numbers: Sequence[int]) -> None:
    """Takes the copies of these workers out of the record's register; waits while Postgres is away.

    Their empty folders go last: until then the next start does this again.
    """
    if not numbers or settings.dsn is None:
        return
    pool, backoff = await open_pool(settings.dsn, name="unregister", min_size=0, max_size=1), Backoff(*POSTGRES_S)
    try:
        for number in numbers:
            place = data_dir_of(settings.data_dir, number)
            name = own_copy(settings.changed(data_dir=place))
            while True:
                try:
                    await Record(pool).forget(name, silent_s=0)
                except RecordError as error:
                    log.debug("the copy %s is taken out of the register later: %s", name, error)
                    await backoff.wait()
                else:
                    break
            with contextlib.suppress(OSError):  # somebody has begun to use it
                place.rmdir()
            log.info("worker %d is wanted no more: its index and graph are deleted and unregistered", number)
    finally:
        await close_pool(pool)


def _is_there(folder: Path) -> bool:
    return any((folder / name).exists() for name in _FILES)


def _is_of_one_kind(first: Path, further: Path) -> bool:
    """Whether two indexes are by one model and from one database; yes where one of them cannot say."""
    if not _is_there(further):
        return True
    if not _is_there(first):  # somebody has deleted it, to have it built again
        return False
    with contextlib.suppress(SourceError):
        made_by = [replace(read_metadata(live_place(one), one), position=0, made="") for one in (first, further)]
        return made_by[0] == made_by[1]
    return True


def _copy(source: Path, target: Path, min_free_bytes: int) -> None:
    part = target.with_name(f"{target.name}{_PART}")
    hint = "or start it with fewer workers"
    with FolderLock.acquire(source, "the folder", hint), FolderLock.acquire(target, "the folder", hint):
        live = live_place(source)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        needed = sum(path.stat().st_size for path in live.rglob("*") if path.is_file())
        if shutil.disk_usage(target.parent).free - needed < min_free_bytes:
            raise SourceError("its disk is short")
        try:
            shutil.copytree(live, part, ignore=_NOT_COPIED)
            for path in sorted(part.iterdir(), key=Path.is_dir):  # with the folder it is there
                path.rename(target / path.name)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _delete(place: Path) -> bool:
    """Whether index and graph there are gone; not while a process has one of them open."""
    if not place.exists():
        return False
    with contextlib.ExitStack() as stack:
        for folder in (place / kind for kind in ("index", "graph") if (place / kind).is_dir()):
            lock = FolderLock.try_acquire(folder)
            if lock is None:
                log.warning("%s is kept: process %s has it open", place, holder(folder))
                return False
            stack.enter_context(lock)
        for folder in place.iterdir():
            shutil.rmtree(folder, ignore_errors=True)
    return True


@contextlib.asynccontextmanager
async def folders_of(settings: Settings, count: int) -> AsyncGenerator[None]:
    """Folders for so many workers, and for no more. While the block runs, those that are gone are unregistered."""
    surplus = await asyncio.to_thread(delete_surplus, settings, count)
    for folder in await asyncio.to_thread(make_further_copies, settings, count):
        log.info("%s is a copy of the first worker's", folder)
    unregistering = asyncio.create_task(unregister(settings, surplus))
    try:
        yield
    finally:
        await cancel(unregistering)
