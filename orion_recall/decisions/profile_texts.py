"""The texts behind the profile hashes of the decision log: every worker writes down the profiles that it serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import LiteralString

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, borrow, is_connection_lost
from orion_recall.profile import Profile
from orion_recall.profile.reading import dump_profile
from orion_recall.profile.watch import LoadedProfile
from orion_recall.tasks import POSTGRES_S, Backoff, sleep

log = logging.getLogger("orion_recall.decisions")

# A restored backup brings the texts that it had, without those of a worker that ran already.
_EVERY_S = 600.0
_WRITE: LiteralString = """
INSERT INTO recall_profiles (hash, profile, text)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
ON CONFLICT (hash) DO NOTHING
"""


class ProfileTexts:
    """Writes the profiles in use to `recall_profiles`: `run()` it until cancelled, `note()` after every change.

    What was in use while Postgres was away is written when it is back, even if it is not in use any more.
    """

    def __init__(self, current: Callable[[], Mapping[str, LoadedProfile]]) -> None:
        self._current = current
        self._waiting: dict[str, Profile] = {}
        self._noted = asyncio.Event()
        self.note()

    def note(self) -> None:
        self._waiting |= {one.content_hash: one.profile for one in self._current().values()}
        self._noted.set()

    async def run(self, pool: Pool, *, every_s: float = _EVERY_S) -> None:
        """Write what was noted, and what is in use again every ten minutes; waits while Postgres is away."""
        backoff = Backoff(*POSTGRES_S)
        while True:
            if not await sleep(every_s, self._noted):
                self.note()
            self._noted.clear()
            try:
                await self._write(pool)
                backoff.reset()
            except RecordError as error:
                if backoff.is_first and not is_connection_lost(error):
                    log.error("the texts of profiles are not written: %s", error)  # noqa: TRY400 (it says it all)
                await backoff.wait()
                self._noted.set()

    async def _write(self, pool: Pool) -> None:
        waiting = dict(self._waiting)
        texts = await asyncio.to_thread(lambda: [dump_profile(profile) for profile in waiting.values()])
        names = [profile.profile for profile in waiting.values()]
        async with borrow(pool, "writing profiles") as connection:
            await connection.execute(_WRITE, list(waiting), names, texts)
        for written in waiting:
            del self._waiting[written]


async def profile_text(pool: Pool, content_hash: str) -> str | None:
    """The text of the profile with that hash; None where no worker has served it. RecordError."""
    async with borrow(pool, "reading a profile") as connection:
        return await connection.fetchval("SELECT text FROM recall_profiles WHERE hash = $1", content_hash)
