"""Starts and stops the replay of an edited profile on the newest decisions."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from orion_recall.console.actions.replay_process import WantedReplay
from orion_recall.console.visit import Visit
from orion_recall.text.normal import storable

LEAST, USUAL, MOST = 50, 200, 500


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
    wanted = WantedReplay(
        profile=profile,
        text=text,
        ids=ids,
        tenant=tenant,
        as_of="now" if visit.form.text("as_of") == "now" else "decision",
        redact=visit.form.text("redact") == "yes",
    )
    return "" if visit.console.replaying.start(wanted) else "Nothing was started: another replay runs."


async def stop_replay(visit: Visit) -> Response:
    """Tell the running replay to end."""
    visit.console.replaying.stop()
    return visit.to("/replays")
