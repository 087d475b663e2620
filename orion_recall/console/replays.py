"""The pages of replays: the reports that `orion-recall decisions replay --json` saved in the data folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from jinja2 import UndefinedError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from orion_recall.console.replay_process import FOLDER, Replay
from orion_recall.console.visit import Visit
from orion_recall.contracts import describe
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
    found = [one for one in folder.glob("*.json") if _NAME.fullmatch(one.name)] if folder.is_dir() else []
    saved = [(one.name, datetime.fromtimestamp(one.stat().st_mtime, UTC)) for one in found]
    replaying = visit.console.replaying
    return visit.page(
        "replays.html",
        folder=folder,
        saved=sorted(saved, key=lambda one: one[1], reverse=True),
        running=replaying.running,
        is_stopping=replaying.is_stopping,
        ended=replaying.last,
    )


async def replay_page(visit: Visit) -> Response:
    """One report: the verdict, then the means, then what changed most, where used memories were lost first."""
    name = visit.path("name")
    path = _folder(visit) / name
    if not _NAME.fullmatch(name) or not path.is_file():
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
        told: Any = json.loads(path.read_text("utf-8"))
        return Report.model_validate(told)
    except ValidationError as error:
        why = f"{path.name} is no report of `decisions replay --json`: {describe(error, with_values=False)}"
        raise HTTPException(400, why) from error
    except ValueError as error:
        raise HTTPException(400, f"{path.name} is no JSON: {error}") from error


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
    visit.console.replaying.stop()
    return visit.to("/replays")
