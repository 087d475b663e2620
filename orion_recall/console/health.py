"""The page "Health": workers, streams, copies and dead letters, which can be put back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from orion_recall.bus.dead_letters import DeadLetter, DeadLetters
from orion_recall.bus.signing.keys import read_key
from orion_recall.console.visit import Visit

_SHOWN = 20


async def health_page(visit: Visit) -> Response:
    """The page."""
    settings = visit.console.settings
    status = await visit.console.read_status(settings)
    dead: Mapping[str, Sequence[DeadLetter]] = {}
    if status["bus"]["reachable"]:
        counts: Mapping[str, Any] = status["bus"]["dead"]
        dead = {
            what: await _letters(visit, what).latest(_SHOWN) for what in settings.intake_streams if counts.get(what)
        }
    return visit.page(
        "health.html", status=200, found=status, dead=dead, shown=_SHOWN, said=visit.form.text("said")
    )


async def requeue(visit: Visit) -> Response:
    """Put one dead letter back at the end of its stream."""
    what, letter_id = visit.form.text("of"), visit.form.text("id")
    if what not in visit.console.settings.intake_streams:
        raise HTTPException(400, f"{what!r} has no dead letters")
    letters = _letters(visit, what)
    letter = await letters.get(letter_id)
    key = visit.console.settings.key
    if letter is None or await letters.requeue(letter, key=read_key(key) if key else None) is None:
        raise HTTPException(404, "there is no such dead letter any more")
    return visit.to("/health?said=requeued")


def _letters(visit: Visit, what: str) -> DeadLetters:
    stream = visit.console.settings.intake_streams[what]
    return DeadLetters(visit.console.redis, stream=stream, dead_stream=f"{stream}:dead")
