"""The pages of profiles, checked as one edits them and saved where that is allowed, and of replays with them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jinja2 import UndefinedError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from orion_recall.atomic_file import whole_text
from orion_recall.console.replay_process import FOLDER, Replay, is_report_seen_by
from orion_recall.console.visit import Visit
from orion_recall.contracts import describe
from orion_recall.errors import ProfileError, ProfileProblem
from orion_recall.profile.model import Profile, ProfileDifference, diff_profiles
from orion_recall.profile.reading import load_profile, load_profiles, parse_profile
from orion_recall.profile.watch import profiles_folder
from orion_recall.text.normal import storable

_NAME = re.compile(r"[\w-][\w.-]{0,126}\.json", re.ASCII)
_MOST_BYTES = 32 << 20
_SHOWN = 200
LEAST, USUAL, MOST = 50, 200, 500

Json = Mapping[str, Any]


class Report(BaseModel):
    """A saved replay. What a later version adds is left out; what an earlier one did not say is None."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    made_at: datetime | None = None
    tried_profile: str | None = None
    as_of: Literal["decision", "now"] | None = None
    since: datetime | None = None
    until: datetime | None = None
    queries: int
    matching: int
    k: int
    control_against_logged: Json
    tried: Json | None = None
    apart: Json = Field(default_factory=dict[str, Any])
    not_replayable: Json = Field(default_factory=dict[str, Any])
    why_control_differs: Json = Field(default_factory=dict[str, Any])
    changed: Sequence[Json] = ()
    gate: Json | None = None
    note: str = ""


async def replays_page(visit: Visit) -> Response:
    folder = _folder(visit)
    found = [one for one in folder.glob("*.json") if _may_read(visit, one.name)] if folder.is_dir() else []
    saved = [(one.name, datetime.fromtimestamp(one.stat().st_mtime, UTC)) for one in found]
    replaying = visit.console.replaying
    running, ended = (
        one if one is not None and one.is_seen_by(visit.access.only_tenant) else None
        for one in (replaying.running, replaying.last)
    )
    return visit.page(
        "replays.html",
        folder=folder,
        saved=sorted(saved, key=lambda one: one[1], reverse=True),
        running=running,
        is_stopping=replaying.is_stopping,
        ended=ended,
    )


def _may_read(visit: Visit, name: str) -> bool:
    return _NAME.fullmatch(name) is not None and is_report_seen_by(name, visit.access.only_tenant)


async def replay_page(visit: Visit) -> Response:
    """One report: the verdict, then the means, then what changed most, where used memories were lost first."""
    name = visit.path("name")
    path = _folder(visit) / name
    if not _may_read(visit, name) or not path.is_file():
        raise HTTPException(404, f"there is no saved replay {name!r}")
    report = read_report(path)
    try:
        return visit.page("replay.html", name=name, **shown_report(report))
    except (UndefinedError, KeyError, TypeError) as error:
        raise HTTPException(400, f"{name} is no report of `decisions replay --json`: {error}") from error


def shown_report(report: Report) -> dict[str, Any]:
    """What the page shows of a report: of what changed, used memories that were lost come first."""
    changed = sorted(report.changed, key=lambda one: (not one["used_lost"], one["overlap"]))
    return {
        "report": report,
        "compared": report.tried or report.control_against_logged,
        "changed": changed[:_SHOWN],
        "all_changed": len(changed),
    }


def read_report(path: Path) -> Report:
    """The report in a file; HTTPException for another file, with what is wrong in it."""
    if path.stat().st_size > _MOST_BYTES:
        raise HTTPException(413, f"{path.name} is too large to be shown")
    try:
        return Report.model_validate_json(path.read_bytes())
    except ValidationError as error:
        why = f"{path.name} is no report of `decisions replay --json`: {describe(error, with_values=False)}"
        raise HTTPException(400, why) from error


def _folder(visit: Visit) -> Path:
    return visit.console.settings.data_dir / FOLDER


async def start_replay(visit: Visit, profile: str, text: str) -> str:
    """Start what the form asks for; why not, "" where it runs now. The text must be one that can be used."""
    if not visit.access.may("operate"):
        raise HTTPException(403, "your token does not have the right to operate")
    tenant = storable(visit.tenant) if visit.form.text("tenant") else visit.access.only_tenant
    of = None if visit.form.text("of") == "any" else profile
    count = visit.form.number("last", least=LEAST, most=MOST) or USUAL
    ids = await visit.console.log.newest_ids(count, profile=of, tenant=tenant)
    if not ids:
        return f"Nothing was started: there is no decision{f' under {of}' if of else ''} that you may replay."
    wanted = Replay(
        profile=profile,
        text=text,
        ids=ids,
        tenant=tenant,
        as_of="now" if visit.form.text("as_of") == "now" else "decision",
        redact=visit.form.text("redact") == "yes",
    )
    return "" if visit.console.replaying.start(wanted) else "Nothing was started: another replay runs."


async def stop_replay(visit: Visit) -> Response:
    replaying = visit.console.replaying
    if replaying.running is not None and not replaying.running.is_seen_by(visit.access.only_tenant):
        raise HTTPException(404, "there is no replay that you may stop")
    replaying.stop()
    return visit.to("/replays")


_FILE_NAME = re.compile(r"[\w-][\w.-]{0,126}", re.ASCII)
_SAME = ("profile", "description")
_NEED_A_GOOD_ONE = ("save", "replay")
_checking = asyncio.Semaphore(1)
"""Reading a long text takes a second, and every visitor may ask for it."""


class Checked(NamedTuple):
    """A text that was checked: its problems, or how it differs from the one in the folder."""

    problems: Sequence[ProfileProblem] = ()
    differences: Sequence[ProfileDifference] = ()


async def profiles_page(visit: Visit) -> Response:
    status = await visit.console.read_status(visit.console.settings)
    workers: Sequence[Mapping[str, Any]] = status["bus"]["workers"]
    profiles, error = dict[str, Profile](), ""
    try:
        profiles = await asyncio.to_thread(load_profiles, profiles_folder(visit.console.settings))
    except ProfileError as refused:
        error = str(refused)
    return visit.page(
        "profiles.html",
        profiles=profiles,
        error=error,
        folder=profiles_folder(visit.console.settings),
        default=status["profiles"]["default"],
        workers={name: [one["instance"] for one in workers if name in one["profiles"]] for name in profiles},
        refused={one["instance"]: one["profiles_error"] for one in workers if one["profiles_error"]},
    )


async def profile_page(visit: Visit) -> Response:
    name = visit.path("name")
    text = _file(visit, name).read_text("utf-8", "replace")
    return _page(visit, text, _hash(text))


async def check_profile(visit: Visit) -> Response:
    """Check the text of the form; download it, replay it, or save it where that is asked for and allowed."""
    name, text, action = visit.path("name"), visit.form.raw("text"), visit.form.text("action")
    file = _file(visit, name)
    async with _checking:
        checked = await asyncio.to_thread(_checked, text, file)
    if action == "download":
        headers = {"content-disposition": f'attachment; filename="{name}.yaml"'}
        return Response(text, media_type="application/yaml", headers=headers)
    before = visit.form.text("before")
    if action not in _NEED_A_GOOD_ONE or checked.problems:
        return _page(visit, text, before, checked, status=400 if action in _NEED_A_GOOD_ONE else 200)
    if action == "replay":
        if error := await start_replay(visit, name, text):
            return _page(visit, text, before, checked, error=error, status=409)
        return visit.to("/replays")
    if not _may_save(visit):
        raise HTTPException(
            403, "profiles are not saved here (ORION_CONSOLE_SAVES_PROFILES), or your token is not for all tenants"
        )
    if not file.resolve().is_relative_to(profiles_folder(visit.console.settings).resolve()):
        raise HTTPException(403, "nothing was saved: the file is a link to a place outside the folder")
    if _hash(file.read_text("utf-8", "replace")) != before:
        error = "Nothing was saved: the file was changed meanwhile."
        return _page(visit, text, before, checked, error=error, status=409)
    with whole_text(file) as target:
        os.fchmod(target.fileno(), file.stat().st_mode & 0o777)  # workers may be other users
        target.write(text)
    return visit.to(f"/profiles/{name}?said=saved")


def _page(
    visit: Visit, text: str, before: str, checked: Checked | None = None, *, error: str = "", status: int = 200
) -> Response:
    return visit.page(
        "profile.html",
        status=status,
        name=visit.path("name"),
        text=text,
        before=before,
        checked=checked,
        error=error,
        may_save=_may_save(visit),
        last=visit.form.number("last", least=LEAST, most=MOST) or USUAL,
        least=LEAST,
        most=MOST,
        lines=max(20, min(60, text.count("\n") + 2)),
    )


def _checked(text: str, file: Path) -> Checked:
    try:
        profile = parse_profile(text, file)
    except ProfileError as error:
        return Checked(problems=error.problems)
    try:
        found = diff_profiles(load_profile(file), profile)
    except ProfileError:  # a broken file is what one came to mend
        found = []
    return Checked(differences=[one for one in found if one.key not in _SAME])


def _file(visit: Visit, name: str) -> Path:
    paths = [profiles_folder(visit.console.settings) / f"{name}.{ending}" for ending in ("yaml", "yml")]
    if _FILE_NAME.fullmatch(name) and (path := next(filter(Path.is_file, paths), None)):
        return path
    raise HTTPException(404, f"there is no profile {name!r}")


def _may_save(visit: Visit) -> bool:
    """Whether the visitor may save a profile: all tenants share it, so one of a single tenant may not."""
    settings, access = visit.console.settings, visit.access
    is_possible = settings.console_saves_profiles and settings.profiles_dir is not None
    return is_possible and access.may("operate") and access.only_tenant is None


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
