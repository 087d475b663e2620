"""Commands and options that are gone: each is refused with what took its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from orion_recall.errors import SettingsError

GONE_COMMANDS: Mapping[str, Mapping[str, str]] = {
    "eval": {
        "ablate": "`eval sweep --set KEY=0` tries a profile without a part of the score, or without a source",
        "reliability": "`eval calibrate` prints AUC and calibration error of each run",
        "unanswerable": "`eval run --without-evidence` makes queries that nothing answers",
        "review": "the console's page of a decision adds judged questions to judged.jsonl, and `eval feedback` "
        "makes them of callers' feedback",
        "successions": "successions are no longer recognised by rules",
    },
    "graph": {
        "import": "the graph is made from the record, which `memory backup` and `memory restore` carry",
    },
    "decisions": {
        "shadow": "`decisions compare` compares shadows and canaries",
        "sample": "`decisions list --sample 100` draws decisions; each is judged on its page of the console",
    },
}
GONE_OPTIONS: Mapping[str, str] = {
    "--format": 'the graph is exported as CSV; `graph sparql "CONSTRUCT …"` gives N-Triples',
    "--plot": "plots are no longer drawn: --json has the numbers",
    "--beside": "plots are no longer drawn: `eval compare` compares two runs",
    "--junit": "the exit code is the verdict, and --json has every threshold",
    "--with-history": "`memory history ID` has the steps of a memory, and `memory backup` those of all",
    "--full": "`memory forget` rewrites every table, however large",
    "--restart": "every import begins anew: what is stored already is unchanged",
    "--markdown": "--json has the whole report",
    "--calls": "`eval run` tells the milliseconds of a profile or a baseline",
    "--sizes": "`make bench-scale` measures growth; `eval run` tells the milliseconds of a profile or a baseline",
}


def add_gone(app: typer.Typer, group: str) -> None:
    """Register the group's commands that are gone, hidden."""
    for name, instead in GONE_COMMANDS[group].items():
        app.command(name, hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
            _refused(f"there is no `{group} {name}` any more: {instead}")
        )


def _refused(why: str) -> Callable[[], None]:
    def refuse() -> None:
        raise SettingsError(why)

    return refuse
