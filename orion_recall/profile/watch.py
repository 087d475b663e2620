"""Reloading of profiles: they are read again on a change of their files or on request, and replaced all at once.

Of an invalid edit the last good version stays in use. A recall in flight ends with the profiles it began with.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from orion_recall.errors import ProfileError, SettingsError
from orion_recall.profile.model import Profile
from orion_recall.profile.reading import load_profiles
from orion_recall.settings import Settings
from orion_recall.shipped import shipped_folder
from orion_recall.tasks import cancel, report

log = logging.getLogger("orion_recall.profiles")

# Network mounts report no changes, and a mounted folder changes by a link that is swapped: so files are looked at.
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedProfile:
    """A profile and the hash of its content, computed once."""

    profile: Profile
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilesState:
    """The state of the profiles. `error` is why the current files were refused, None when they are in use.

    `version` is 12 hex digits of all names and contents; times are epoch seconds.
    """

    version: str
    names: tuple[str, ...]
    loaded_at: float
    refused_at: float | None = None
    error: str | None = None


def loaded_profiles(folder: Path | None) -> dict[str, LoadedProfile]:
    """Every profile of the folder (default: the shipped ones), with its content hash."""
    profiles = load_profiles(folder or shipped_folder("profiles"))
    return {name: LoadedProfile(profile=one, content_hash=one.content_hash) for name, one in profiles.items()}


def profiles_folder(settings: Settings) -> Path:
    """The folder of the profiles that the settings name."""
    return settings.profiles_dir or shipped_folder("profiles")


def profiles_with_default(settings: Settings) -> dict[str, LoadedProfile]:
    """The profiles that the settings name; SettingsError when the default one is not among them."""
    folder, default = settings.profiles_dir, settings.default_profile
    profiles = loaded_profiles(folder)
    if default not in profiles:
        where = f"ORION_PROFILES_DIR ({folder})" if folder else "the shipped profiles"
        raise SettingsError(
            f"the default profile {default!r} is not in {where}, only {', '.join(sorted(profiles))}: put it there, "
            "or set ORION_DEFAULT_PROFILE to one that is, and restart"
        )
    return profiles


class ProfilesInUse:
    """The profiles in use, one version of all of them at a time. Read `current` once per query."""

    def __init__(self, profiles: Mapping[str, LoadedProfile]) -> None:
        self.current: Mapping[str, LoadedProfile]
        self.state: ProfilesState
        self.current, self.state = _version(profiles)

    def take(self, profiles: Mapping[str, LoadedProfile]) -> bool:
        """Use these from now on; whether they differ from those before. A refused version is forgotten."""
        current, state = _version(profiles)
        if state.version == self.state.version:
            self.state = replace(self.state, refused_at=None, error=None)
            return False
        self.current, self.state = current, state
        return True

    def refuse(self, error: str) -> None:
        """Keep the profiles in use, and record why the new ones were refused."""
        self.state = replace(self.state, refused_at=time.time(), error=error)


def _version(profiles: Mapping[str, LoadedProfile]) -> tuple[Mapping[str, LoadedProfile], ProfilesState]:
    names = tuple(sorted(profiles))
    told = "\n".join(f"{name} {profiles[name].content_hash}" for name in names)
    version = hashlib.sha256(told.encode()).hexdigest()[:12]
    return MappingProxyType(dict(profiles)), ProfilesState(version=version, names=names, loaded_at=time.time())


class ProfileWatch:
    """Keeps the profiles in use up to date with the settings' folder; `run()` it until cancelled.

    Without a folder the shipped profiles are read again on request, and not watched. `changed` is called after
    every check that changed the state."""

    def __init__(self, in_use: ProfilesInUse, settings: Settings, *, changed: Callable[[], None]) -> None:
        self._in_use, self._settings, self._changed = in_use, settings, changed
        self._wanted = asyncio.Event()
        self._asked = False

    def ask(self) -> None:
        """Read the files again, even if they did not change."""
        log.info("reading the profiles again")
        self._asked = True
        self._wanted.set()

    async def run(self) -> None:
        """Read again on every change and on `ask()`."""
        loops = [asyncio.create_task(self._reload_when_wanted())]
        if (folder := self._settings.profiles_dir) is not None:
            loops.append(asyncio.create_task(self._watch(folder)))
        try:
            await asyncio.gather(*loops)
        finally:
            await cancel(*loops)

    async def _reload_when_wanted(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            asked, self._asked = self._asked, False
            before = self._in_use.state
            try:
                found = await asyncio.to_thread(self._read)
            except (ProfileError, SettingsError) as error:
                self._refused(str(error), asked=asked)
            except Exception as error:  # noqa: BLE001 (the last good profiles stay, whatever is wrong with these)
                report("profiles could not be read", error)
                self._refused(f"they could not be read ({type(error).__name__})", asked=asked)
            else:
                if self._in_use.take(found):
                    now = self._in_use.state
                    log.info("profiles %s in use, after %s: %s", now.version, before.version, ", ".join(now.names))
                elif asked or before.error is not None:
                    log.info("profiles %s stay in use: the files say the same", before.version)
            if self._in_use.state != before:
                self._changed()

    def _refused(self, why: str, *, asked: bool) -> None:
        before = self._in_use.state
        if asked or why != before.error:
            log.error("profiles refused, %s stays in use: %s", before.version, why)
            self._in_use.refuse(why)

    def _read(self) -> dict[str, LoadedProfile]:
        return profiles_with_default(self._settings)

    async def _watch(self, folder: Path) -> None:
        last = read = None
        while True:
            found = await asyncio.to_thread(_signature, folder)
            if found == last != read:  # an editor that writes in several steps has come to an end
                read = found
                self._wanted.set()
            last = found
            await asyncio.sleep(_LOOK_EVERY_S)


def _signature(folder: Path) -> tuple[tuple[object, ...], ...]:
    """Something that differs when a file of the folder does."""
    try:
        files = [(path.name, path.stat()) for path in sorted(folder.iterdir()) if path.name[0] != "."]
    except OSError as error:
        return ((error.errno,),)
    return tuple((name, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size) for name, stat in files)
