"""The pages of profiles: their texts, checked and compared as one edits them, saved where that is allowed."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response

from orion_recall.atomic_file import whole_text
from orion_recall.console.replays import LEAST, MOST, USUAL, start_replay
from orion_recall.console.visit import Visit
from orion_recall.errors import ProfileError, ProfileProblem
from orion_recall.profile.model import Profile, ProfileDifference, diff_profiles
from orion_recall.profile.reading import load_profile, load_profiles
from orion_recall.shipped import shipped_folder

_FILE_NAME = re.compile(r"[\w-][\w.-]{0,126}", re.ASCII)
_SAME = ("profile", "description")
_NEED_A_GOOD_ONE = ("save", "replay")


class Checked(NamedTuple):
    """A text that was checked: its problems, or how it differs from the one in the folder."""

    problems: Sequence[ProfileProblem] = ()
    differences: Sequence[ProfileDifference] = ()


async def profiles_page(visit: Visit) -> Response:
    status = await visit.console.read_status(visit.console.settings)
    workers: Sequence[Mapping[str, Any]] = status["bus"]["workers"]
    profiles, error = dict[str, Profile](), ""
    try:
        profiles = await asyncio.to_thread(load_profiles, _folder(visit))
    except ProfileError as refused:
        error = str(refused)
    return visit.page(
        "profiles.html",
        profiles=profiles,
        error=error,
        folder=_folder(visit),
        default=status["profiles"]["default"],
        workers={name: [one["instance"] for one in workers if name in one["profiles"]] for name in profiles},
        refused={one["instance"]: one["profiles_error"] for one in workers if one["profiles_error"]},
    )


async def profile_page(visit: Visit) -> Response:
    name = visit.path("name")
    text = _file(visit, name).read_text("utf-8", "replace")
    return _page(visit, name, text, _hash(text), Checked())


async def check_profile(visit: Visit) -> Response:
    """Check the text of the form; download it, replay it, or save it where that is asked for and allowed."""
    name, text, action = visit.path("name"), visit.form.raw("text"), visit.form.text("action")
    file = _file(visit, name)
    checked = await asyncio.to_thread(_checked, text, name, file)
    if action == "download":
        headers = {"content-disposition": f'attachment; filename="{name}.yaml"'}
        return Response(text, media_type="application/yaml", headers=headers)
    before = visit.form.text("before")
    if action not in _NEED_A_GOOD_ONE or checked.problems:
        return _page(visit, name, text, before, checked, status=400 if action in _NEED_A_GOOD_ONE else 200)
    if action == "replay":
        if error := await start_replay(visit, name, text):
            return _page(visit, name, text, before, checked, error=error, status=409)
        return visit.to("/replays")
    if not _may_save(visit):
        raise HTTPException(403, "the console may not save profiles here: ORION_CONSOLE_SAVES_PROFILES")
    if not file.resolve().is_relative_to(_folder(visit).resolve()):
        raise HTTPException(403, "nothing was saved: the file is a link to a place outside the folder")
    if _hash(file.read_text("utf-8", "replace")) != before:
        error = "Nothing was saved: the file was changed meanwhile."
        return _page(visit, name, text, before, checked, error=error, status=409)
    with whole_text(file) as target:
        target.write(text)
    return visit.to(f"/profiles/{name}?said=saved")


def _page(
    visit: Visit, name: str, text: str, before: str, checked: Checked, *, error: str = "", status: int = 200
) -> Response:
    return visit.page(
        "profile.html",
        status=status,
        name=name,
        text=text,
        before=before,
        checked=checked,
        error=error,
        may_save=_may_save(visit),
        was_checked=visit.request.method == "POST",
        last=visit.form.number("last", least=LEAST, most=MOST) or USUAL,
        least=LEAST,
        most=MOST,
        lines=max(20, min(60, text.count("\n") + 2)),
    )


def _checked(text: str, name: str, file: Path) -> Checked:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(text, "utf-8")
        try:
            profile = load_profile(path)
        except ProfileError as error:
            return Checked(problems=error.problems)
    try:
        found = diff_profiles(load_profile(file), profile)
    except ProfileError:  # a broken file is what one came to mend
        found = []
    return Checked(differences=[one for one in found if one.key not in _SAME])


def _file(visit: Visit, name: str) -> Path:
    paths = [_folder(visit) / f"{name}.{ending}" for ending in ("yaml", "yml")]
    if _FILE_NAME.fullmatch(name) and (path := next(filter(Path.is_file, paths), None)):
        return path
    raise HTTPException(404, f"there is no profile {name!r}")


def _folder(visit: Visit) -> Path:
    return visit.console.settings.profiles_dir or shipped_folder("profiles")


def _may_save(visit: Visit) -> bool:
    settings = visit.console.settings
    return settings.console_saves_profiles and settings.profiles_dir is not None and visit.access.may("operate")


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
