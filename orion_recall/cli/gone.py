"""Commands and options that are gone, and what took their place: each is refused with that."""

from __future__ import annotations

from collections.abc import Mapping

GONE_COMMANDS: Mapping[str, Mapping[str, str]] = {
    "eval": {
        "ablate": "`eval sweep --set KEY=0` tries a profile without a part of the score, or without a source",
        "reliability": "`eval calibrate` prints AUC and calibration error of each run",
        "unanswerable": "`eval run --without-evidence` makes queries that nothing answers",
        "review": "`decisions sql` lists decisions with their feedback, to judge questions from",
        "feedback": "`decisions replay` measures a profile by the feedback on logged queries",
        "worst": "`eval score --worst 10` lists the worst queries of a run",
        "systems": "`eval run --baseline like` (or bm25_decay, vector, rrf) and `eval score` measure each system",
        "successions": "successions are no longer recognised by rules",
    },
    "decisions": {
        "shadow": "`decisions compare` compares shadows and canaries",
        "sample": "`decisions list --sample 100` draws decisions; each is judged on its page of the console",
        "tail": "the console's first page follows the decisions, and `decisions list --since 5m` lists them",
    },
    "memory": {
        "search": "`memory list WORDS` searches",
        "extracted": "`memory show ID` has what was extracted",
        "reembed": "`memory rebuild index` embeds every memory with the configured model",
    },
    "profiles": {
        "diff": "the console's page of a profile shows in what it differs; `diff` compares what `profiles show` "
        "prints",
    },
    "graph": {
        "import": "the graph is made from the record, which `memory backup` and `memory restore` carry",
        "stats": "`graph sparql` counts, and nodes.csv of `graph export` has the components",
    },
}
GONE_OPTIONS: Mapping[str, str] = {
    "--format": "the graph is exported as CSV; `graph sparql` gives rows of any pattern",
    "--plot": "plots are no longer drawn: --json has the numbers",
    "--out": "--json prints the whole report",
    "--against": "a profile is compared with the control, which had the same memories",
    "--beside": "plots are no longer drawn: `eval compare` compares two runs",
    "--junit": "the exit code is the verdict, and --json has every threshold",
    "--with-history": "`memory history ID` has the steps of a memory, and `memory backup` those of all",
    "--full": "`memory forget` rewrites every table, however large",
    "--restart": "every import begins anew: what is stored already is unchanged",
    "--extractor": "ORION_EXTRACTOR says what finds names and statements",
    "--csv": "--json has the rows",
    "--all-tenants": "`graph sparql` asks the graph of one tenant",
    "--markdown": "--json has the whole report",
    "--calls": "`eval run` tells the milliseconds of a profile or a baseline",
    "--sizes": "`make bench-scale` measures growth; `eval run` tells the milliseconds of a profile or a baseline",
}
