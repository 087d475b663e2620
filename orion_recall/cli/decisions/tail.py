"""`orion-recall decisions tail`: decisions as they are taken."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from contextlib import aclosing
from typing import Annotated

import typer

from orion_recall.bus.connect import connect
from orion_recall.cli.connect.addresses import DataFolder, bus_of, find_started
from orion_recall.cli.output import JsonFlag, counted, note, print_json, visible
from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.live import DecisionFilter, LiveDecisions
from orion_recall.errors import SettingsError
from orion_recall.settings import Settings
from orion_recall.values import OUTCOMES, Outcome

_HEAD = f"{'at (UTC)':12} {'id':8} {'profile':18} {'outcome':8} {'ms':>8} {'kept':>4} {'sure':>5}  query"


def tail_decisions(
    outcome: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(OUTCOMES)}.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only those under this profile.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only those of this tenant.")] = None,
    slower_than: Annotated[
        float | None, typer.Option("--slower-than", min=0, metavar="MS", help="Only those that took longer.")
    ] = None,
    shadows: Annotated[bool, typer.Option("--shadows", help="Include those of shadow profiles.")] = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Follow the decisions as they are taken, until Ctrl-C.

    They are read off the bus, so each is there at once, also while Postgres is away. With --json each is one line.

    Example: `orion-recall decisions tail --outcome empty --slower-than 200`
    """
    wanted = DecisionFilter(
        outcome=_outcome(outcome), profile=profile, tenant=tenant, slower_than_ms=slower_than, shadows=shadows
    )
    shown = Shown(as_json=as_json)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_follow(find_started(data), wanted, shown))
    except BrokenPipeError:  # whoever read the lines has enough of them
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    note(f"ended: {counted(shown.count, 'decision')} shown")


class Shown:
    """The decisions that were printed: a line each."""

    def __init__(self, *, as_json: bool) -> None:
        self.count = 0
        self._as_json = as_json

    def show(self, one: RecallDecisionV1) -> None:
        """Print one decision."""
        if self._as_json:
            print_json(one.model_dump(mode="json"), one_line=True)
        else:
            if not self.count:
                print(_HEAD)
            print(_line(one), flush=True)
        self.count += 1


async def _follow(settings: Settings, wanted: DecisionFilter, shown: Shown) -> None:
    stream = settings.decision_stream
    async with connect(bus_of(settings), blocking=True) as redis:
        live = LiveDecisions(redis, stream, tell=note)
        await live.start()
        note(f"waiting for decisions on {stream}; Ctrl-C ends it")
        async with aclosing(live.read()) as decisions:
            async for decision in decisions:
                if wanted.takes(decision):
                    shown.show(decision)


def _line(one: RecallDecisionV1) -> str:
    sure = "" if one.confidence is None or one.no_answer is not None else f"{one.confidence:.2f}"
    profile = one.profile if one.shadow_of is None else f"{one.profile} (shadow)"
    query = " ".join(one.query[:80].split())
    at = f"{one.created_at:%H:%M:%S}.{one.created_at.microsecond // 1000:03}"
    figures = f"{one.latency_ms:8.1f} {len(one.selected_ids):4} {sure:>5}"
    return visible(f"{at} {one.id[:8]} {profile:18} {one.outcome:8} {figures}  {query}")


def _outcome(given: str | None) -> Outcome | None:
    if given is not None and given not in OUTCOMES:
        raise SettingsError(f"--outcome: {given!r} is none of {', '.join(OUTCOMES)}")
    return given
