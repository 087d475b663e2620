"""Profiles that are edited while they are in use, on real files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orion_recall.profile import Profile
from orion_recall.profile.reading import dump_profile
from orion_recall.profile.watch import LoadedProfile, ProfilesInUse, ProfileWatch, loaded_profiles


def profile(name: str, **changes: object) -> Profile:
    values = {
        "profile": name, "vector_top_k": 5, "rdf_top_k": 0, "max_per_source": 5, "max_total_items": 5,
        "render_budget_tokens": 100,
    }  # fmt: skip
    return Profile.model_validate(values | changes)


def write(folder: Path, name: str, **changes: object) -> None:
    put(folder / f"{name}.yaml", dump_profile(profile(name, **changes)))


def put(file: Path, text: str) -> None:
    """The way most editors do: a new file in the place of the old one. Nobody reads half of it."""
    half = file.with_name(f".{file.name}.tmp")
    half.write_text(text, "utf-8")
    half.replace(file)


def open_watches(folder: Path) -> int:
    """How many of our open files watch that folder. Those of tests before may be on their way to be closed."""
    watched, found = f"ino:{folder.stat().st_ino:x} ", 0
    for descriptor in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            lines = descriptor.read_text().splitlines()
            found += any(line.startswith("inotify") and watched in line for line in lines)
    return found


class Watch(ProfileWatch):
    """It tells how often it has read the files."""

    reads = 0

    def _read(self) -> dict[str, LoadedProfile]:
        try:
            return super()._read()
        finally:
            self.reads += 1


class Edited:
    """A folder that is watched."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        for name in ("a.v1", "b.v1"):
            write(folder, name)
        self.folder, self.told = folder, 0
        self.in_use = ProfilesInUse(loaded_profiles(folder))
        self.watch = Watch(self.in_use, folder, default="a.v1", changed=self._note)

    def _note(self) -> None:
        self.told += 1

    async def until(self, condition: Callable[[ProfilesInUse], object]) -> None:
        async with asyncio.timeout(30):
            while not condition(self.in_use):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def watching(folder: Path) -> AsyncGenerator[Edited]:
    edited = Edited(folder)
    task = asyncio.create_task(edited.watch.run())
    try:
        # It reads the files once when it begins: an edit at the same time might be seen half done.
        await edited.until(lambda _: edited.watch.reads and open_watches(folder))
        yield edited
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def items(in_use: ProfilesInUse) -> int:
    return in_use.current["a.v1"].profile.max_total_items


async def test_an_edit_is_taken_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orion_recall.profiles")
    async with watching(tmp_path) as edited:
        before, held = edited.in_use.state, edited.in_use.current
        write(tmp_path, "a.v1", max_total_items=3)
        await edited.until(lambda now: items(now) == 3)
        after = edited.in_use.state
    assert held["a.v1"].profile.max_total_items == 5, "whoever has taken a version keeps it"
    assert after.version != before.version
    assert (after.error, edited.told) == (None, 1)
    assert after.version in caplog.text


async def test_a_new_profile_comes_and_an_old_one_goes(tmp_path: Path) -> None:
    async with watching(tmp_path) as edited:
        write(tmp_path, "c.v1")
        (tmp_path / "b.v1.yaml").unlink()
        await edited.until(lambda now: now.state.names == ("a.v1", "c.v1"))


async def test_a_broken_edit_is_refused_with_its_place_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.v1.yaml"
    async with watching(tmp_path) as edited:
        version, good = edited.in_use.state.version, file.read_text("utf-8")
        put(file, good.replace("max_total_items: 5", "max_total_itens: 5"))
        await edited.until(lambda now: now.state.error)
        refused = edited.in_use.state
        assert (refused.version, items(edited.in_use)) == (version, 5)
        line = good.splitlines().index("max_total_items: 5") + 1
        assert f"{file}:{line}:1: `max_total_itens`" in (refused.error or "")
        assert "max_total_items" in (refused.error or ""), "what to write instead"
        assert refused.refused_at is not None
        assert f"{file}:{line}:1" in caplog.text
        put(file, good)
        await edited.until(lambda now: now.state.error is None)
        assert edited.in_use.state.version == version


async def test_whatever_is_wrong_with_an_edit_the_last_good_profiles_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path) as edited:
        version = edited.in_use.state.version

        def fails(_: Watch) -> dict[str, LoadedProfile]:
            raise ZeroDivisionError

        with monkeypatch.context() as broken:
            broken.setattr(Watch, "_read", fails)
            edited.watch.ask()
            await edited.until(lambda now: now.state.error)
        assert edited.in_use.state.version == version
        put(tmp_path / "a.v1.yaml", (tmp_path / "a.v1.yaml").read_text("utf-8") + "# mended\n")
        await edited.until(lambda now: now.state.error is None)


async def test_without_the_default_profile_the_edit_is_refused(tmp_path: Path) -> None:
    async with watching(tmp_path) as edited:
        (tmp_path / "a.v1.yaml").unlink()
        await edited.until(lambda now: now.state.error)
        assert "the default profile 'a.v1' is gone" in (edited.in_use.state.error or "")
        assert set(edited.in_use.current) == {"a.v1", "b.v1"}
        write(tmp_path, "a.v1", max_total_items=2)
        await edited.until(lambda now: items(now) == 2)


async def test_a_mounted_folder_whose_link_is_swapped_is_an_edit(tmp_path: Path) -> None:
    """As Kubernetes does it: the files are links through `..data`, which is swapped for another one."""
    mounted, first, second = tmp_path / "mounted", tmp_path / "mounted" / "..1", tmp_path / "mounted" / "..2"
    for place, most in ((first, 5), (second, 4)):
        place.mkdir(parents=True)
        for name in ("a.v1", "b.v1"):
            write(place, name, max_total_items=most)
    (mounted / "..data").symlink_to("..1")
    for name in ("a.v1", "b.v1"):
        (mounted / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")
    in_use = ProfilesInUse(loaded_profiles(mounted))
    task = asyncio.create_task(ProfileWatch(in_use, mounted, default="a.v1", changed=lambda: None).run())
    await asyncio.sleep(0.2)
    (mounted / "..new").symlink_to("..2")
    (mounted / "..new").rename(mounted / "..data")
    async with asyncio.timeout(30):
        while items(in_use) != 4:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_folder_that_goes_and_comes_back_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    async with watching(folder) as edited:
        shutil.rmtree(folder)
        await edited.until(lambda now: now.state.error)
        assert "cannot be read" in (edited.in_use.state.error or "")
        other = tmp_path / "other"
        other.mkdir()
        for name in ("a.v1", "b.v1"):
            write(other, name, max_total_items=4)
        other.rename(folder)
        await edited.until(lambda now: items(now) == 4)
        write(folder, "a.v1", max_total_items=1)
        await edited.until(lambda now: items(now) == 1)


async def test_who_asks_is_told_also_that_nothing_is_new(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orion_recall.profiles")
    async with watching(tmp_path) as edited:
        edited.watch.ask()
        async with asyncio.timeout(30):
            while "the files say the same" not in caplog.text:
                await asyncio.sleep(0.01)
        assert edited.told == 0


async def test_the_shipped_profiles_are_read_again_when_asked_and_not_watched() -> None:
    shipped = loaded_profiles(None)
    in_use = ProfilesInUse({name: one for name, one in shipped.items() if name == "reflect.v1"})
    watch = ProfileWatch(in_use, None, default="reflect.v1", changed=lambda: None)
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(0.2)
    assert in_use.state.names == ("reflect.v1",)
    watch.ask()
    async with asyncio.timeout(30):
        while in_use.state.names != tuple(sorted(shipped)):
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_watch_that_ends_leaves_no_thread_waiting_and_no_file_open(tmp_path: Path) -> None:
    async with asyncio.timeout(30):
        async with watching(tmp_path):
            while open_watches(tmp_path) == 0:
                await asyncio.sleep(0.05)
        while open_watches(tmp_path) > 0:
            await asyncio.sleep(0.05)


def test_a_version_is_one_of_names_and_contents_not_of_their_order() -> None:
    one, other = (LoadedProfile(profile=profile(name), content_hash=name) for name in ("a.v1", "b.v1"))
    forwards, backwards = {"a.v1": one, "b.v1": other}, {"b.v1": other, "a.v1": one}
    assert ProfilesInUse(forwards).state.version == ProfilesInUse(backwards).state.version
    changed = {"a.v1": one, "b.v1": LoadedProfile(profile=other.profile, content_hash="c")}
    assert ProfilesInUse(changed).state.version != ProfilesInUse(forwards).state.version
