"""`orion-recall eval successions`: how well what replaces what is recognised."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from orion_recall.cli.evaluate.files import MemoriesFile
from orion_recall.cli.evaluate.output import progress_bars
from orion_recall.cli.output import JsonFlag, console, print_json, table
from orion_recall.evaluation.dataset import read_memories
from orion_recall.evaluation.successions.pairs import Measured, Pair, measured, read_pairs
from orion_recall.evaluation.successions.run import recognise
from orion_recall.memory.succession.decide import SUCCEEDS
from orion_recall.memory.succession.reasons import plain
from orion_recall.settings import Settings
from orion_recall.telemetry import log_to_stderr

_LEVELS = (0.5, 0.7, 0.9, 0.95, 0.98)


def measure_successions(
    memories: MemoriesFile,
    pairs: Annotated[Path, typer.Option(metavar="PAIRS.jsonl", help="The judged pairs.")],
    least: Annotated[
        float, typer.Option("--from", min=0.0, max=1.0, help="Count successions from this confidence up.")
    ] = SUCCEEDS,
    wrong: Annotated[bool, typer.Option("--wrong", help="List the recognised ones that are wrong.")] = False,
    missed: Annotated[bool, typer.Option("--missed", help="List those that were not recognised.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure how well successions are recognised: later memories after which older ones hold no more.

    A pair is a line with `old`, `new` (memory ids), `kind` and, if ids repeat, `conversation_id`. Kinds:
    `replaced`, `part` (arguable: right, but not looked for) and `trap` (a look-alike). A recognised pair that is
    not listed is wrong, so list all. Each conversation is a tenant of its own. Stores are made for it and deleted
    afterwards.

    Example: `orion-recall eval successions --memories M.jsonl --pairs PAIRS.jsonl --wrong`
    """
    log_to_stderr("warning")
    read = read_memories(memories)
    judged = read_pairs(pairs, read)
    with progress_bars() as bars:
        task = bars.add_task("comparing", total=len(read))
        found = asyncio.run(recognise(read, Settings.read(), lambda done: bars.update(task, completed=done)))
    result = measured(found, judged, least=least)
    if as_json:
        print_json(_as_json(result))
        return
    rows = [
        (f"{level:.2f}", str(len(at.recognised)), str(at.right), _share(at.precision), _share(at.recall))
        for level in dict.fromkeys((least, *(one for one in _LEVELS if one > least)))
        for at in [measured(found, judged, least=level)]
    ]
    console().print(table(("confidence from", "recognised", "right", "precision", "recall"), rows))
    texts = {(memory.tenant, memory.id): memory.text for memory in read}
    if wrong:
        for one in result.recognised:
            if not one.is_right:
                _show(one.pair, f"{one.confidence:.2f}, {plain(one.reason)}", texts)
    if missed:
        for pair, why in result.missed.items():
            _show(pair, f"not recognised{f': {why}' if why else ''}", texts)


def _show(pair: Pair, what: str, texts: dict[tuple[str, str], str]) -> None:
    console().print(f"\n{pair.old} → {pair.new}  {what}", markup=False)
    for name in (pair.old, pair.new):
        console().print(f"  {' '.join(texts[pair.conversation, name].split())}", markup=False)


def _as_json(result: Measured) -> dict[str, Any]:
    return {
        "judged": result.judged,
        "recognised": [
            one._asdict() | {"pair": one.pair._asdict(), "is_right": one.is_right} for one in result.recognised
        ],
        "right": result.right,
        "precision": result.precision,
        "recall": result.recall,
        "missed": [pair._asdict() | {"why": why} for pair, why in result.missed.items()],
    }


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"
