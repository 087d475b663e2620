"""Shared options of the `eval` commands, and the run plan made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.setup.profiles import named_profile
from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.dataset import read_queries
from orion_recall.evaluation.measures import judged
from orion_recall.evaluation.run_stores import Plan
from orion_recall.evaluation.vectors import VectorCache, default_folder
from orion_recall.settings import Settings
from orion_recall.telemetry import log_to_stderr

MemoriesFile = Annotated[Path, typer.Option("--memories", metavar="M.jsonl", help="The memories.")]
QueriesFile = Annotated[Path, typer.Option("--queries", metavar="Q.jsonl", help="The judged queries.")]
ProfileName = Annotated[
    str | None, typer.Option("--profile", help="A profile's name, or a YAML file (default: ORION_DEFAULT_PROFILE).")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first so many queries.")]
CacheFolder = Annotated[
    Path | None, typer.Option("--cache", metavar="DIR", help="Where vectors are kept (default: the user's cache).")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep nothing for the next run.")]
Depths = Annotated[str, typer.Option("--k", help="Depths to measure at, such as 5,10.")]
By = Annotated[str, typer.Option(help="The measure that decides, such as recall@5, map or mrr.")]
_DEEPEST = 10_000


def plan_of(
    memories: Path,
    queries: Path,
    *,
    profile: str | None,
    limit: int | None = None,
    cache: Path | None = None,
    no_cache: bool = False,
    scored_only: bool = True,
) -> Plan:
    """What is to be run. SettingsError for options that do not go together, EvaluationError for the file."""
    log_to_stderr("warning")
    found = read_queries(queries, limit=limit)
    if scored_only:
        found = judged(found)
        if not found:
            raise EvaluationError(f"{queries}: no judged query: none has evidence, or all are marked as not scored")
    return Plan(
        memories=memories,
        queries_file=queries,
        queries=found,
        profile=named_profile(profile or Settings.read().default_profile),
        cache=cache_of(cache, no_cache=no_cache),
    )


def cache_of(folder: Path | None, *, no_cache: bool) -> VectorCache | None:
    if folder is not None and no_cache:
        raise SettingsError("--cache and --no-cache do not go together")
    return None if no_cache else VectorCache(folder or default_folder())


def refuse_to_replace(out: Path | None, *read: Path) -> None:
    """SettingsError when a file that is read would be written over."""
    if out is not None and out.exists() and any(one.exists() and out.samefile(one) for one in read):
        raise SettingsError(f"{out} is read, and would be replaced: name another file to write")


def depths_of(text: str) -> tuple[int, ...]:
    """Numbers from 1 to 10,000, each once; SettingsError for anything else."""
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1 or max(numbers) > _DEEPEST:
        raise SettingsError(f"--k: {text[:100]!r} is no list of numbers from 1 to {_DEEPEST}, such as 5,10,20")
    return numbers
