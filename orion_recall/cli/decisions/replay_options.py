"""The options of `orion-recall decisions replay`: their types, names and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from orion_recall.cli.moments import MOMENT_HELP
from orion_recall.evaluation.decision_replay.gate import LEAST_QUERIES
from orion_recall.evaluation.decision_replay.plan import AsOf
from orion_recall.values import QUERY_CLASSES

_GATE, _WHICH, _FILES = "The gate", "Which queries", "Reports"

TriedProfile = Annotated[
    str | None,
    typer.Option(metavar="NAME|FILE", help="The profile to try: a name, or a YAML file. Without it: the control."),
]
MemoriesAsOf = Annotated[AsOf, typer.Option(help="On the memories as each decision found them, or as of now.")]
ComparedWith = Annotated[
    Literal["control", "logged"],
    typer.Option(help="What the tried profile is compared with: the logged profile asked again, or the log."),
]
Depth = Annotated[int, typer.Option(min=1, max=100, help="Depth of the overlap.")]

Since = Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}", rich_help_panel=_WHICH)]
Until = Annotated[str | None, typer.Option(help="Only earlier ones.", rich_help_panel=_WHICH)]
IdsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Only these: a decision or correlation id a line.", rich_help_panel=_WHICH),
]
OfTenant = Annotated[str | None, typer.Option(help="Only this tenant's.", rich_help_panel=_WHICH)]
OfClass = Annotated[
    str | None,
    typer.Option("--class", help=f"Only of this class: {', '.join(QUERY_CLASSES)}.", rich_help_panel=_WHICH),
]
OfProfile = Annotated[
    str | None,
    typer.Option(
        help="Only those under this profile (default: the one named as the tried one); any: all.",
        rich_help_panel=_WHICH,
    ),
]
Sample = Annotated[int, typer.Option(min=1, help="So many at most, drawn.", rich_help_panel=_WHICH)]
Seed = Annotated[int, typer.Option(help="Of the draw.", rich_help_panel=_WHICH)]

FailUnder = Annotated[
    str | None,
    typer.Option(metavar="M=X,…", help="Means wanted: overlap@5=.8,used_kept=1", rich_help_panel=_GATE),
]
FailOver = Annotated[
    str | None,
    typer.Option(metavar="M=+X,…", help="Increases allowed: empty=+.01,p95_ms=+10%", rich_help_panel=_GATE),
]
MinQueries = Annotated[
    int | None,
    typer.Option(min=1, help=f"With fewer it cannot be judged ({LEAST_QUERIES}).", rich_help_panel=_GATE),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="The 95% interval counts, not the mean.", rich_help_panel=_GATE)
]

LinesFile = Annotated[
    Path | None, typer.Option(metavar="FILE.jsonl", help="A line for each query.", rich_help_panel=_FILES)
]
JunitFile = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE.xml", help="JUnit XML.", rich_help_panel=_FILES)
]
MarkdownFile = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE.md", help="Markdown.", rich_help_panel=_FILES)
]
Redact = Annotated[
    bool,
    typer.Option("--redact", help="Leave the texts of queries out of every report.", rich_help_panel=_FILES),
]
Show = Annotated[int, typer.Option(min=0, help="Changed queries to list.", rich_help_panel=_FILES)]
